// Calls of the guest's functions: order, room, a peer that lies, the end.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/host_calls.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

class HostCallModes : public testing::TestWithParam<SpinMode> {};

TEST_P(HostCallModes, ArriveInOrderAndAreCounted) {
  TestChannel channel(GetParam());
  constexpr uint64_t kCalls = 3'000;
  std::thread guest([&] {
    HostCallReader& reader = channel.guest->host_calls();
    for (uint64_t i = 1; i <= kCalls; ++i) {
      HostCall call;
      ASSERT_EQ(reader.next(&call), WaitResult::kReady);
      ASSERT_EQ(call.id, i);
      ASSERT_EQ(call.status, static_cast<int32_t>(i % 3));
      reader.finish();
    }
  });
  HostCallWriter& writer = channel.worker->host_calls();
  uint64_t finished = 0;
  for (uint64_t i = 1; i <= kCalls; ++i) {
    while (!writer.post({i, static_cast<int32_t>(i % 3)})) {
      ASSERT_EQ(writer.wait_finished(&finished), WaitResult::kReady);
    }
  }
  while (finished != kCalls) ASSERT_EQ(writer.wait_finished(&finished), WaitResult::kReady);
  guest.join();
  EXPECT_EQ(writer.posted(), kCalls);
}

INSTANTIATE_TEST_SUITE_P(Modes, HostCallModes,
                         testing::Values(SpinMode::kAdaptive, SpinMode::kNever));

TEST(HostCalls, NoMoreThanThereIsRoomFor) {
  TestChannel channel;
  HostCallWriter& writer = channel.worker->host_calls();
  for (uint32_t i = 0; i < kHostCallEntries; ++i) EXPECT_TRUE(writer.post({i, 0}));
  EXPECT_FALSE(writer.post({1, 0}));
  HostCall call;
  ASSERT_EQ(channel.guest->host_calls().next(&call), WaitResult::kReady);
  EXPECT_FALSE(writer.post({1, 0})) << "taken, not finished";
  channel.guest->host_calls().finish();
  uint64_t finished = 0;
  ASSERT_EQ(writer.wait_finished(&finished), WaitResult::kReady);
  EXPECT_EQ(finished, 1u);
  EXPECT_TRUE(writer.post({1, 0}));
}

TEST(HostCalls, AGuestThatFinishesMoreThanItGot) {
  for (const uint64_t claim : {uint64_t{3}, ~uint64_t{0}}) {
    TestChannel channel(SpinMode::kNever);
    HostCallWriter& writer = channel.worker->host_calls();
    ASSERT_TRUE(writer.post({1, 0}));
    channel.view().host_calls()->finished.position.store(claim);
    uint64_t finished = 0;
    EXPECT_EQ(writer.wait_finished(&finished), WaitResult::kDead);
    EXPECT_TRUE(writer.broken());
    EXPECT_EQ(finished, 0u);
  }
}

TEST(HostCalls, AWorkerThatPostsMoreThanThereIsRoomFor) {
  for (const uint64_t claim : {uint64_t{kHostCallEntries} + 1, ~uint64_t{0}}) {
    TestChannel channel(SpinMode::kNever);
    channel.view().host_calls()->posted.position.store(claim);
    HostCall call;
    EXPECT_EQ(channel.guest->host_calls().next(&call), WaitResult::kDead);
  }
}

TEST(HostCalls, DeathEndsBothWaits) {
  TestChannel channel(SpinMode::kNever);
  WaitResult guest = WaitResult::kReady, worker = WaitResult::kReady;
  std::thread reader([&] {
    HostCall call;
    guest = channel.guest->host_calls().next(&call);
  });
  std::thread writer([&] {
    uint64_t finished = 0;
    worker = channel.worker->host_calls().wait_finished(&finished);
  });
  channel.guest->mark_dead();
  channel.worker->host_calls().mark_dead();
  reader.join();
  writer.join();
  EXPECT_EQ(guest, WaitResult::kDead);
  EXPECT_EQ(worker, WaitResult::kDead);
  EXPECT_FALSE(channel.worker->host_calls().broken());
}

}  // namespace
}  // namespace vgpu::protocol
