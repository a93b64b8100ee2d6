// Reply slots: answers, many threads, more threads than slots, death.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

struct Args {
  uint64_t value;
};

// Answers every record with result = op and payload = value + 1, until told to stop.
void serve(WorkerChannel* worker) {
  Consumer& consumer = worker->consumer();
  for (;;) {
    Record record;
    const PeekResult result = consumer.peek(&record);
    if (result == PeekResult::kEmpty) {
      if (consumer.wait() == WaitResult::kDead) return;
      continue;
    }
    ASSERT_EQ(result, PeekResult::kRecord);
    Args args{};
    Blob blob;
    ASSERT_TRUE(decode(record, &args, &blob));
    worker->replies().complete_with(record.header.reply, record.header.op, args.value + 1);
    consumer.release();
  }
}

void call_many(GuestChannel* guest, uint64_t seed, int calls) {
  for (int i = 0; i < calls; ++i) {
    const uint32_t slot = guest->replies().acquire();
    ASSERT_LT(slot, kReplySlots);
    const uint64_t value = seed * 1'000'000 + static_cast<uint64_t>(i);
    {
      std::lock_guard hold(guest->lock());
      ASSERT_NE(write_record(&guest->producer(), 77, Args{value}, {}, slot), 0u);
    }
    Reply reply;
    ASSERT_EQ(guest->replies().wait(slot, &reply), WaitResult::kReady);
    ASSERT_EQ(reply.result, 77);
    uint64_t answer = 0;
    ASSERT_TRUE(reply.get(&answer));
    ASSERT_EQ(answer, value + 1);
    guest->replies().release(slot);
  }
}

class ReplyModes : public testing::TestWithParam<SpinMode> {};

TEST_P(ReplyModes, ManyThreadsGetTheirOwnAnswers) {
  TestChannel channel(GetParam());
  std::thread worker(serve, channel.worker.get());
  std::vector<std::thread> guests;
  for (uint64_t t = 0; t < 16; ++t) guests.emplace_back(call_many, channel.guest.get(), t, 500);
  for (std::thread& guest : guests) guest.join();
  channel.worker->mark_dead();
  worker.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, ReplyModes, testing::Values(SpinMode::kAdaptive, SpinMode::kNever));

TEST(Reply, MoreThreadsThanSlotsQueue) {
  TestChannel channel;
  std::thread worker(serve, channel.worker.get());
  std::vector<std::thread> guests;
  for (uint64_t t = 0; t < kReplySlots + 40; ++t) {
    guests.emplace_back(call_many, channel.guest.get(), t, 20);
  }
  for (std::thread& guest : guests) guest.join();
  channel.worker->mark_dead();
  worker.join();
}

TEST(Reply, ExhaustedPoolWaitsForARelease) {
  TestChannel channel;
  ReplyPool& pool = channel.guest->replies();
  std::vector<uint32_t> held;
  for (uint32_t i = 0; i < kReplySlots; ++i) held.push_back(pool.acquire());
  uint32_t late = kNoReply;
  std::thread waiter([&] { late = pool.acquire(); });
  pool.release(held[123]);
  waiter.join();
  EXPECT_EQ(late, held[123]);
}

TEST(Reply, DeathWakesWaitersAndQueue) {
  TestChannel channel(SpinMode::kNever);
  ReplyPool& pool = channel.guest->replies();
  std::atomic<int> dead{0};
  std::vector<std::thread> threads;
  std::vector<uint32_t> slots;
  for (uint32_t i = 0; i < kReplySlots; ++i) slots.push_back(pool.acquire());
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Reply reply;
      if (pool.wait(slots[static_cast<size_t>(i)], &reply) == WaitResult::kDead) ++dead;
    });
    threads.emplace_back([&] {
      if (pool.acquire() == kNoReply) ++dead;
    });
  }
  channel.guest->mark_dead();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(dead, 16);
  EXPECT_EQ(pool.acquire(), kNoReply);
}

TEST(Reply, TimesOut) {
  TestChannel channel;
  const uint32_t slot = channel.guest->replies().acquire();
  Reply reply;
  EXPECT_EQ(channel.guest->replies().wait(slot, &reply, 1'000'000), WaitResult::kTimeout);
}

TEST(Reply, OversizedPayloadIsAnErrorNotAnOverrun) {
  TestChannel channel;
  const uint32_t slot = channel.guest->replies().acquire();
  std::byte large[kReplyPayloadBytesMax + 1] = {};
  channel.worker->replies().complete(slot, 0, large);
  channel.worker->replies().complete(kNoReply, 0);
  channel.worker->replies().complete(kReplySlots, 0);
  Reply reply;
  ASSERT_EQ(channel.guest->replies().wait(slot, &reply), WaitResult::kReady);
  EXPECT_EQ(reply.result, 999);
  EXPECT_EQ(reply.payload_bytes, 0u);
  uint64_t value = 0;
  EXPECT_FALSE(reply.get(&value));
}

}  // namespace
}  // namespace vgpu::protocol
