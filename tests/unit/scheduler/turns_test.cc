// Turns by hand: who has the engine, who waits, and what a report may do.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/turns.h"

#include <gtest/gtest.h>

#include "scheduler/fair_share.h"

namespace vgpu::scheduler {
namespace {

constexpr uint64_t kMs = 1'000'000;

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() : turns_(std::make_unique<FairShare>(), Engine::kCompute) {
    for (const uint64_t client : {1, 2, 3}) turns_.add(client, {}, {}, 0);
  }
  // What a client says, and what becomes of it.
  void say(uint64_t client, uint64_t admitted, uint64_t completed, uint64_t wanted) {
    turns_.report(client, {admitted, completed, completed, wanted}, now_);
    turns_.round(now_);
  }
  Turns turns_;
  uint64_t now_ = kMs;
};

TEST_F(TurnsTest, NobodyHasAnythingBeforeHeAsks) {
  turns_.round(now_);
  EXPECT_EQ(turns_.allowance(1), 0u);
  EXPECT_EQ(turns_.next_round(now_), kNever) << "who does nothing costs nothing";
}

TEST_F(TurnsTest, WhoIsAloneHasItOpenAndLosesThatWhenAnotherComes) {
  say(1, 0, 0, kMs);
  EXPECT_EQ(turns_.allowance(1), kOpen);
  say(1, 50 * kMs, 40 * kMs, 0);
  EXPECT_EQ(turns_.allowance(1), kOpen);
  say(2, 0, 0, kMs);
  EXPECT_EQ(turns_.allowance(1), 50 * kMs) << "what it has begun, no more";
  EXPECT_GT(turns_.allowance(2), 0u);
  EXPECT_NE(turns_.allowance(2), kOpen);
}

TEST_F(TurnsTest, WhoStaysHasItOpenAgain) {
  say(1, 0, 0, kMs);
  say(2, 0, 0, kMs);
  say(1, 0, 0, kMs);
  EXPECT_NE(turns_.allowance(1), kOpen);
  say(2, kMs, kMs, 0);
  now_ += 6 * kMs;  // longer than a pause
  say(1, 2 * kMs, 2 * kMs, kMs);
  EXPECT_EQ(turns_.allowance(1), kOpen);
}

TEST_F(TurnsTest, APieceLongerThanATurnHoldsItToItsEnd) {
  say(1, 0, 0, 0);
  say(2, 0, 0, 20 * kMs);
  say(1, 0, 0, 20 * kMs);
  say(3, 0, 0, 20 * kMs);
  const uint64_t first = turns_.allowance(1);
  EXPECT_EQ(first, 2 * kMs);
  say(1, 20 * kMs, 0, 20 * kMs);
  EXPECT_EQ(turns_.allowance(1), first) << "two turns are under way";
  say(1, 20 * kMs, 20 * kMs, 20 * kMs);
  EXPECT_GT(turns_.allowance(3), 0u) << "it is over";
}

TEST_F(TurnsTest, WhoIsLateKeepsNobodyOut) {
  say(1, 0, 0, kMs);
  say(2, 0, 0, kMs);
  say(1, 0, 0, kMs);
  say(1, 2 * kMs, 0, kMs);
  say(2, 2 * kMs, 0, kMs);
  say(3, 0, 0, kMs);
  EXPECT_EQ(turns_.allowance(3), 0u) << "two turns are under way";
  now_ = turns_.next_round(now_);
  while (turns_.allowance(3) == 0 && now_ < 300 * kMs) {
    turns_.round(now_);
    now_ = turns_.next_round(now_);
  }
  EXPECT_GT(turns_.allowance(3), 0u);
}

TEST_F(TurnsTest, ACappedClientIsNeverOpen) {
  turns_.set_share(1, {100, PriorityClass::kNormal, 300}, now_);
  say(1, 0, 0, kMs);
  EXPECT_NE(turns_.allowance(1), kOpen);
  // It uses all that a burst has, and must wait although nobody else wants anything.
  uint64_t admitted = 0;
  for (int i = 0; i < 20 && !turns_.throttled(1); ++i) {
    admitted = std::max(admitted, turns_.allowance(1));
    now_ += 2 * kMs;  // an engine takes as long as that
    say(1, admitted, admitted, kMs);
  }
  EXPECT_TRUE(turns_.throttled(1));
  EXPECT_LT(admitted, 20 * kMs);
  EXPECT_NE(turns_.next_round(now_), kNever);
}

TEST_F(TurnsTest, WhoGoesGivesItsTurnBack) {
  say(1, 0, 0, kMs);
  say(2, 0, 0, kMs);
  say(1, 0, 0, kMs);
  say(1, 2 * kMs, 0, kMs);
  say(2, 2 * kMs, 0, kMs);
  say(3, 0, 0, kMs);
  EXPECT_EQ(turns_.allowance(3), 0u);
  turns_.remove(1, now_);
  turns_.round(now_);
  EXPECT_GT(turns_.allowance(3), 0u);
  EXPECT_EQ(turns_.allowance(1), 0u);
}

// A restarted server learns of work that was begun before: it is no debt, and no credit.
TEST_F(TurnsTest, WhoIsTakenOverStartsFromWhereItIs) {
  turns_.add(9, {}, {500 * kMs, 490 * kMs, 490 * kMs, 0}, now_);
  EXPECT_EQ(turns_.allowance(9), 500 * kMs);
  say(9, 500 * kMs, 500 * kMs, kMs);
  EXPECT_EQ(turns_.allowance(9), kOpen);
}

TEST_F(TurnsTest, SumsThatAreNoSumsHarmNobodyElse) {
  const uint64_t values[] = {0, 1, kMs, 1ull << 62, UINT64_MAX - 1, UINT64_MAX};
  uint64_t served = 0;
  for (const uint64_t a : values) {
    for (const uint64_t c : values) {
      for (const uint64_t w : values) {
        turns_.report(1, {a, c, a ^ c, w}, now_);
        turns_.report(2, {served, served, served, kMs}, now_);
        turns_.round(now_);
        now_ += 60 * kMs;
        turns_.round(now_);
        if (turns_.allowance(2) > served) served += 2 * kMs;
      }
    }
  }
  EXPECT_GT(served, 200 * kMs);
}

// It says that it has used an hour with every report, and that all it has begun is past: at weight
// 1 nothing overflows, and nobody else loses a turn by it.
TEST_F(TurnsTest, ALiarHarmsNobodyElse) {
  turns_.set_share(1, {1}, now_);
  uint64_t lie = 0, had = 0, used = 0;
  for (int i = 0; i < 20'000; ++i) {
    lie += 3'600'000 * kMs;
    turns_.report(1, {turns_.allowance(1), turns_.allowance(1), lie, kMs}, now_);
    turns_.report(2, {had, had, used, kMs}, now_);
    turns_.round(now_);
    now_ += kMs / 2;
    if (turns_.allowance(2) > had) {
      had += 2 * kMs;
      used += 2 * kMs;
      now_ += 2 * kMs;
    }
  }
  EXPECT_GT(had, 20'000 * kMs);
  // Who comes now does not start an hour behind.
  say(3, 0, 0, kMs);
  for (int i = 0; i < 40 && turns_.allowance(3) == 0; ++i) {
    turns_.report(2, {had, had, used, kMs}, now_);
    turns_.round(now_);
    now_ += 2 * kMs;
    had = std::max(had, turns_.allowance(2));
  }
  EXPECT_GT(turns_.allowance(3), 0u);
}

// A worker is stopped while it waits: it wants something for ever, and uses nothing.
TEST_F(TurnsTest, WhoSleepsWithATurnDoesNotContend) {
  say(1, 0, 0, kMs);
  say(2, 0, 0, kMs);
  uint64_t had = 0;
  for (int i = 0; i < 300; ++i) {  // 600 ms
    now_ += 2 * kMs;
    had = turns_.allowance(2) == kOpen ? had + 2 * kMs : std::max(had, turns_.allowance(2));
    turns_.report(1, {0, 0, 0, kMs}, now_);
    say(2, had, had, kMs);
  }
  EXPECT_EQ(turns_.allowance(2), kOpen) << "nobody else is there";
  EXPECT_EQ(turns_.next_round(now_), kNever) << "and who sleeps costs nothing";
  EXPECT_GT(turns_.allowance(1), 0u) << "what it was given is still there";
  say(1, kMs, 0, kMs);  // it goes on
  EXPECT_NE(turns_.allowance(2), kOpen);
}

// A turn that is late is charged for the time for which it kept others out; what its kernel then
// turns out to have used is charged less that.
TEST_F(TurnsTest, WhatWasChargedForHoldingIsNotChargedAgain) {
  auto policy = std::make_unique<FairShare>();
  const FairQueue& queue = policy->queue(Engine::kCompute);
  Turns turns(std::move(policy), Engine::kCompute);
  turns.add(1, {}, {}, 0);
  turns.add(2, {}, {}, 0);
  const auto say = [&](uint64_t client, uint64_t ended, uint64_t used, uint64_t now) {
    turns.report(client, {10 * kMs, ended, used, 0}, now);
    turns.round(now);
  };
  turns.report(1, {0, 0, 0, 10 * kMs}, kMs);
  turns.report(2, {0, 0, 0, 10 * kMs}, kMs);
  turns.round(kMs);
  say(1, 0, 0, 2 * kMs);
  say(2, 0, 0, 2 * kMs);
  for (uint64_t at = 3; at < 600; ++at) say(1, 0, 0, at * kMs);
  const int64_t held = queue.charged_ns(1);
  EXPECT_GT(held, int64_t{2 * kMs});
  say(1, 10 * kMs, 100 * kMs, 600 * kMs);
  EXPECT_EQ(queue.charged_ns(1), int64_t{100 * kMs});
}

// Who does nothing with its turn for a while does not keep it, nor what is left of it.
TEST_F(TurnsTest, AnIdleTurnEnds) {
  say(1, 0, 0, kMs);
  say(2, 0, 0, kMs);
  say(1, 0, 0, kMs);
  say(3, 0, 0, kMs);
  now_ += kMs / 10;
  say(1, kMs / 10, kMs / 10, 0);
  EXPECT_EQ(turns_.allowance(1), 2 * kMs) << "it may just be looking at its result";
  EXPECT_EQ(turns_.allowance(3), 0u);
  now_ = turns_.next_round(now_) + kMs;
  turns_.round(now_);
  EXPECT_EQ(turns_.allowance(1), kMs / 10);
  EXPECT_GT(turns_.allowance(3), 0u);
}

}  // namespace
}  // namespace vgpu::scheduler
