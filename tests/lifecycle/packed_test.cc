// Guests of one tenant in one worker: what they share, and what each has for itself.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/lifecycle/packed_fixture.h"

namespace vgpu::testing {
namespace {

using ::testing::HasSubstr;

const std::string kZero(4, '\0'), kOne("\1\0\0\0", 4), kTwo("\2\0\0\0", 4);

TEST_F(Packed, GuestsOfATenantHaveOneWorker) {
  Member one = add(), two = add(), three = add(), plain = add("plain");
  ASSERT_NE(plain.memory, 0u);
  EXPECT_EQ(one.worker(), two.worker());
  EXPECT_EQ(one.worker(), three.worker());
  EXPECT_NE(one.worker(), plain.worker());
  const GuestsReply all = list();
  ASSERT_EQ(all.guests.size(), 4u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(all.guests[static_cast<size_t>(i)].mode, kMode);
  EXPECT_EQ(all.guests[3].mode, 0);
  for (Member* each : {&one, &two, &three, &plain}) expect_works(each);
  // Each has a part of the addresses.
  EXPECT_NE(one.attachment.reply.device_range, two.attachment.reply.device_range);
  EXPECT_NE(one.attachment.reply.host_range, two.attachment.reply.host_range);
  EXPECT_NE(one.memory, two.memory);
}

TEST_F(Packed, MoreThanAWorkerTakesHaveAnother) {
  std::vector<protocol::Attachment> all;
  std::map<pid_t, int> workers;
  for (int i = 0; i < 18; ++i) {
    all.push_back(attach("together", 2 * kMiB));
    ASSERT_TRUE(all.back().status.ok()) << all.back().status.to_string();
    ++workers[all.back().reply.server_pid];
  }
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers.begin()->second + workers.rbegin()->second, 18);
  EXPECT_EQ(std::max(workers.begin()->second, workers.rbegin()->second), 16);
}

TEST_F(Packed, EachHasItsQuota) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  wire::MemCreditArgs credit;
  credit.bytes = kGrant;  // it has some already
  EXPECT_EQ(one.guest->call(Op::kMemCredit, credit), CUDA_SUCCESS);
  credit.bytes = kGrant + 2 * kMiB;
  EXPECT_EQ(one.guest->call(Op::kMemCredit, credit), CUDA_ERROR_OUT_OF_MEMORY);
  wire::MemMapArgs map;
  map.address = two.memory + 4 * kMiB;
  map.bytes = kGrant - 4 * kMiB;
  two.guest->post(Op::kMemMap, map);
  EXPECT_EQ(two.guest->synchronize(), 0);
  for (const GuestState& guest : list().guests) EXPECT_EQ(guest.used_bytes.at(0), kGrant);
  SteerRequest more = limit(128 * kMiB);
  EXPECT_EQ(steer(more), "");
  expect_works(&one);
  expect_works(&two);
}

// A kernel that does not end holds up its own guest's blocking streams, as natively, and no
// neighbour's default stream.
TEST_F(Packed, DefaultStreamsAreEachGuestsOwn) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  make_stream(&one, 0, CU_STREAM_DEFAULT);
  make_stream(&one, 1, CU_STREAM_NON_BLOCKING);
  make_stream(&two, 0, CU_STREAM_DEFAULT);
  one.guest->write_inline(one.memory, kZero + kOne);
  ASSERT_EQ(one.guest->synchronize(), 0);
  launch(one.guest.get(), "spin", one.memory);
  launch(one.guest.get(), "double_all", one.memory + 4, 1, 1, stream_id(0));
  launch(two.guest.get(), "double_all", two.memory, 1, 1, stream_id(0));
  launch(two.guest.get(), "double_all", two.memory);
  expect_works(&two);
  EXPECT_EQ(two.guest->synchronize(), 0);
  EXPECT_EQ(query(&one, 1), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(query(&one, stream_id(0)), CUDA_ERROR_NOT_READY) << "it is behind the default stream";
  EXPECT_EQ(one.guest->read(one.memory + 4, 4, stream_id(1)), kOne);
  one.guest->write_inline(one.memory, kOne, stream_id(1));
  EXPECT_EQ(one.guest->synchronize(), 0);
  EXPECT_EQ(one.guest->read(one.memory + 4, 4), kTwo);
}

TEST_F(Packed, TheDefaultStreamWaitsForItsGuestsBlockingStreams) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  make_stream(&one, 0, CU_STREAM_DEFAULT);
  make_stream(&one, 1, CU_STREAM_NON_BLOCKING);
  make_stream(&one, 2, CU_STREAM_DEFAULT);
  one.guest->write_inline(one.memory, kZero + kOne);
  ASSERT_EQ(one.guest->synchronize(), 0);
  launch(one.guest.get(), "spin", one.memory, 1, 1, stream_id(0));
  launch(one.guest.get(), "double_all", one.memory + 4);                      // behind it
  launch(one.guest.get(), "double_all", one.memory + 4, 1, 1, stream_id(2));  // behind that
  expect_works(&two);
  EXPECT_EQ(query(&one, 1), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(query(&one, stream_id(2)), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(one.guest->read(one.memory + 4, 4, stream_id(1)), kOne);
  wire::StreamDestroyArgs destroy;
  destroy.stream = stream_id(0);
  one.guest->post(Op::kStreamDestroy, destroy);
  EXPECT_EQ(query(&one, 1), CUDA_ERROR_NOT_READY) << "destroyed, and still waited for";
  one.guest->write_inline(one.memory, kOne, stream_id(1));
  EXPECT_EQ(one.guest->synchronize(), 0);
  EXPECT_EQ(one.guest->read(one.memory + 4, 4), std::string("\4\0\0\0", 4));
}

TEST_F(Packed, WhatItCannotHaveIsRefused) {
  Member one = add();
  ASSERT_NE(one.memory, 0u);
  wire::ContextCreateArgs context;
  context.context = SlotId::make(1, 1, 1);
  context.slot = 1;
  EXPECT_EQ(one.guest->call(Op::kContextCreate, context), CUDA_ERROR_NOT_SUPPORTED);
  wire::GreenCreateArgs green;
  EXPECT_EQ(one.guest->call(Op::kGreenCreate, green), CUDA_ERROR_NOT_SUPPORTED);
  wire::ContextSetLimitArgs heap;
  heap.context = kContextId;
  heap.limit = CU_LIMIT_MALLOC_HEAP_SIZE;
  heap.value = 16 * kMiB;
  EXPECT_EQ(one.guest->call(Op::kContextSetLimit, heap), CUDA_ERROR_NOT_SUPPORTED);
  const auto& attributes = one.attachment.reply.devices.at(0).attributes;
  for (const CUdevice_attribute shared :
       {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED})
    EXPECT_EQ(attributes.at(shared), 0) << shared;
  expect_works(&one);
  protocol::Hello elsewhere = test_hello();
  elsewhere.profile = "together";
  elsewhere.flags |= protocol::kHelloRemote;
  const auto refused = server_->ask(elsewhere);
  const auto* why = refused ? std::get_if<protocol::Refusal>(&*refused) : nullptr;
  ASSERT_NE(why, nullptr);
  EXPECT_THAT(why->text, HasSubstr("cannot be packed"));
}

// Limits of the context are everybody's: they grow, and nobody makes them less.
TEST_F(Packed, LimitsOnlyGrow) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  wire::ContextSetLimitArgs set;
  set.context = kContextId;
  set.limit = CU_LIMIT_STACK_SIZE;
  set.value = 8192;
  EXPECT_EQ(one.guest->call(Op::kContextSetLimit, set), CUDA_SUCCESS);
  set.value = 1024;
  EXPECT_EQ(two.guest->call(Op::kContextSetLimit, set), CUDA_SUCCESS);
  wire::ContextGetLimitArgs get;
  get.context = kContextId;
  get.limit = CU_LIMIT_STACK_SIZE;
  protocol::Reply reply;
  wire::ContextGetLimitReply value;
  ASSERT_EQ(two.guest->call(Op::kContextGetLimit, get, &reply), CUDA_SUCCESS);
  ASSERT_TRUE(reply.get(&value));
  EXPECT_EQ(value.value, 8192u);
}

// Through the API a neighbour's memory is nobody's. Kernels of one context reach all of it: packed
// guests must trust each other.
TEST_F(Packed, ForeignMemoryIsOutOfReachForCallsOnly) {
  Member one = add(), two = add(), attacker = add();
  ASSERT_NE(attacker.memory, 0u);
  two.guest->write_inline(two.memory, kOne);
  ASSERT_EQ(two.guest->synchronize(), 0);
  launch(one.guest.get(), "double_all", two.memory);
  EXPECT_EQ(one.guest->synchronize(), 0);
  EXPECT_EQ(two.guest->read(two.memory, 4), kTwo) << "one context, one address space";
  wire::CopyFromDeviceArgs copy;
  copy.source = two.memory;
  copy.bytes = 4;
  copy.stream = 1;
  attacker.guest->post(Op::kCopyFromDevice, copy);
  EXPECT_TRUE(eventually([&] { return guests() == 2; })) << "its session has ended";
  for (Member* each : {&one, &two}) {
    EXPECT_EQ(each->sticky(), 0);
    expect_works(each);
  }
}

// Streams, events and modules are named by each guest in its own table.
TEST_F(Packed, ForeignHandlesAreNobodys) {
  Member one = add(), attacker = add();
  ASSERT_NE(attacker.memory, 0u);
  make_stream(&one, 7, CU_STREAM_DEFAULT);
  wire::StreamSynchronizeArgs foreign;
  foreign.stream = stream_id(7);
  attacker.guest->post(Op::kStreamSynchronize, foreign);
  EXPECT_TRUE(eventually([&] { return guests() == 1; })) << "its session has ended";
  EXPECT_EQ(query(&one, stream_id(7)), CUDA_SUCCESS);
  expect_works(&one);
}

}  // namespace
}  // namespace vgpu::testing
