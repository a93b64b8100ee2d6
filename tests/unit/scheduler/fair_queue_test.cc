// The fair queue's decisions, one by one.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fair_queue.h"

#include <gtest/gtest.h>

namespace vgpu::scheduler {
namespace {

constexpr uint64_t kMs = 1'000'000;

FairLimits one_at_a_time() {
  FairLimits limits;
  limits.window = 1;
  return limits;
}

// Admits and finishes one piece of 1 ms of whoever may start while all of `waiting` wait; 0:
// nobody.
uint64_t serve(FairQueue* queue, std::initializer_list<uint64_t> waiting, uint64_t now) {
  constexpr uint64_t kBlocker = 99;  // keeps the window full until all have been offered
  EXPECT_TRUE(queue->admit(kBlocker, 0, now));
  for (const uint64_t id : waiting) EXPECT_FALSE(queue->admit(id, kMs, now));
  queue->finish(kBlocker, 0, 0, now);
  uint64_t served = 0;
  for (const uint64_t id : waiting) {
    if (queue->admit(id, kMs, now)) served = id;
  }
  for (const uint64_t id : waiting) queue->withdraw(id);
  if (served != 0) queue->finish(served, kMs, kMs, now);
  return served;
}

TEST(FairQueue, TheWindowHolds) {
  FairQueue queue(FairLimits{.window = 2});
  EXPECT_TRUE(queue.admit(1, kMs, 0));
  EXPECT_TRUE(queue.admit(1, kMs, 0));
  EXPECT_FALSE(queue.admit(1, kMs, 0));
  EXPECT_EQ(queue.retry_at(0), kNever) << "only an end makes room";
  queue.finish(1, kMs, kMs, 0);
  EXPECT_TRUE(queue.admit(1, kMs, 0));
}

TEST(FairQueue, WhoHadLessIsNext) {
  FairQueue queue(one_at_a_time());
  EXPECT_TRUE(queue.admit(1, kMs, 0));
  EXPECT_FALSE(queue.admit(2, kMs, 0));
  queue.finish(1, kMs, kMs, 0);
  EXPECT_FALSE(queue.admit(1, kMs, 0)) << "passed one that waits and had nothing";
  EXPECT_TRUE(queue.admit(2, kMs, 0));
}

TEST(FairQueue, ThreeToOne) {
  FairQueue queue(one_at_a_time());
  queue.set_share(1, {300}, 0);
  int first = 0;
  for (int i = 0; i < 400; ++i) first += serve(&queue, {1, 2}, i * kMs) == 1 ? 1 : 0;
  EXPECT_NEAR(first, 300, 3);
}

TEST(FairQueue, MeasuredTimeCorrectsTheEstimate) {
  FairQueue queue(one_at_a_time());
  EXPECT_TRUE(queue.admit(1, kMs, 0));
  EXPECT_EQ(queue.charged_ns(1), int64_t{kMs});
  queue.finish(1, kMs, 10 * kMs, 0);
  EXPECT_EQ(queue.charged_ns(1), int64_t{10 * kMs});
  // The other one now has ten pieces ahead.
  for (int i = 0; i < 9; ++i) EXPECT_EQ(serve(&queue, {1, 2}, 0), 2u) << i;
}

TEST(FairQueue, AHigherClassGoesFirst) {
  FairQueue queue(one_at_a_time());
  queue.set_share(2, {100, PriorityClass::kLatency}, 0);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(serve(&queue, {1, 2}, 0), 2u);
  queue.withdraw(2);
  EXPECT_EQ(serve(&queue, {1}, 0), 1u);
}

TEST(FairQueue, AMinimumIsPaidInTheEnd) {
  FairQueue queue(one_at_a_time());
  queue.set_share(2, {100, PriorityClass::kLatency}, 0);
  EXPECT_TRUE(queue.admit(2, kMs, 0));
  EXPECT_FALSE(queue.admit(1, kMs, 0));
  queue.finish(2, kMs, kMs, 19 * kMs);
  EXPECT_TRUE(queue.admit(2, kMs, 19 * kMs));
  EXPECT_FALSE(queue.admit(2, kMs, 19 * kMs));
  queue.finish(2, kMs, kMs, 20 * kMs);
  EXPECT_FALSE(queue.admit(2, kMs, 20 * kMs)) << "5 % of 20 ms is a piece of 1 ms";
  EXPECT_TRUE(queue.admit(1, kMs, 20 * kMs));
  queue.finish(1, kMs, 2 * kMs, 22 * kMs);
  EXPECT_FALSE(queue.admit(1, kMs, 41 * kMs)) << "a debt is paid first";
  EXPECT_TRUE(queue.admit(2, kMs, 41 * kMs));
}

TEST(FairQueue, ACapAsksToBeTriedAgain) {
  FairQueue queue(one_at_a_time());
  queue.set_share(1, {100, PriorityClass::kNormal, 500}, 0);
  EXPECT_FALSE(queue.admit(1, kMs, 0)) << "a cap begins empty";
  EXPECT_EQ(queue.retry_at(0), 2u) << "half a nanosecond for each that passes";
  EXPECT_TRUE(queue.admit(1, kMs, 2));
  queue.finish(1, kMs, kMs, 2 + kMs);
  EXPECT_FALSE(queue.admit(1, kMs, 2 + kMs)) << "what it had must be paid for first";
  const uint64_t when = queue.retry_at(2 + kMs);
  EXPECT_NEAR(static_cast<double>(when), 2.0 * kMs, 10);
  EXPECT_TRUE(queue.admit(1, kMs, when));
}

// Its tokens are as of now although there is no room, and only an end makes room.
TEST(FairQueue, ACapThatIsPaidForWaitsForRoomLikeAll) {
  FairQueue queue(one_at_a_time());
  queue.set_share(1, {100, PriorityClass::kNormal, 500}, 0);
  EXPECT_TRUE(queue.admit(2, kMs, 0));
  EXPECT_FALSE(queue.admit(1, kMs, 0));
  EXPECT_TRUE(queue.throttled(1));
  EXPECT_EQ(queue.retry_at(0), kNever);
  EXPECT_FALSE(queue.admit(1, kMs, kMs));
  EXPECT_FALSE(queue.throttled(1));
  EXPECT_EQ(queue.retry_at(kMs), kNever);
}

// Who cannot use its share, but is never away for long, keeps its place a slack behind the others.
TEST(FairQueue, NobodyHoardsWhoAsksForLittle) {
  FairLimits limits = one_at_a_time();
  limits.patience_ns = 2 * kMs;
  FairQueue queue(limits);
  uint64_t now = 0;
  for (int i = 0; i < 1000; ++i) {
    now += kMs;
    for (const uint64_t id : {2, 1}) {
      const uint64_t cost = id == 1 ? kMs : 1;
      ASSERT_TRUE(queue.admit(id, cost, now));
      queue.finish(id, cost, cost, now);
    }
  }
  uint64_t pieces = 0;
  while (pieces < 1000 && serve(&queue, {1, 2}, now) == 2) ++pieces;
  EXPECT_GT(pieces, 0u);
  EXPECT_LE(pieces, limits.slack_ns / kMs + 1);
}

TEST(FairQueue, WhatACapKeptBackIsNotSavedUp) {
  FairQueue queue(one_at_a_time());
  queue.set_share(1, {100, PriorityClass::kNormal, 10}, 0);
  for (int i = 1; i <= 1000; ++i) (void)serve(&queue, {1, 2}, i * kMs);
  queue.set_share(1, {100}, 1000 * kMs);
  int first = 0;
  for (int i = 0; i < 100; ++i) first += serve(&queue, {1, 2}, (1001 + i) * kMs) == 1 ? 1 : 0;
  EXPECT_NEAR(first, 50, 25) << "the other one stands still";
}

TEST(FairQueue, RemovedClientsLeaveNothingInFlight) {
  FairQueue queue(one_at_a_time());
  EXPECT_TRUE(queue.admit(1, kMs, 0));
  queue.remove(1);
  EXPECT_EQ(queue.in_flight(), 0u);
  queue.finish(1, kMs, kMs, 0);
  EXPECT_EQ(queue.in_flight(), 0u);
  EXPECT_TRUE(queue.admit(2, kMs, 0));
}

TEST(FairQueue, NothingIsDividedByAWeightOfZero) {
  FairQueue queue(one_at_a_time());
  queue.set_share(1, {0}, 0);
  EXPECT_EQ(serve(&queue, {1}, 0), 1u);
}

}  // namespace
}  // namespace vgpu::scheduler
