// No wake-up is ever lost: ping-pong with random delays and every spin mode. Nothing here has a
// time-out that could hide a loss, so a lost wake-up is a hang, which ctest reports.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

struct Args {
  uint64_t value;
};

struct Case {
  const char* name;
  SpinMode guest;
  SpinMode worker;
  uint32_t delay_us_max;
};

// Burns up to that many microseconds, so that sleeping and publishing meet at every phase.
void random_delay(std::mt19937* random, uint32_t us_max) {
  if (us_max == 0) return;
  const int64_t until = now_ns() + (*random)() % (us_max * 1000);
  while (now_ns() < until) cpu_pause();
}

void echo(const ChannelView& view, SpinMode mode, uint32_t delay_us_max, Consumer* consumer) {
  ReplyWriter replies(view);
  std::mt19937 random(2);
  (void)mode;
  for (;;) {
    Record record;
    const PeekResult result = consumer->peek(&record);
    if (result == PeekResult::kEmpty) {
      if (consumer->wait() == WaitResult::kDead) return;
      continue;
    }
    ASSERT_EQ(result, PeekResult::kRecord);
    consumer->release();
    random_delay(&random, delay_us_max);
    replies.complete(record.header.reply, record.header.op);
  }
}

class PingPong : public testing::TestWithParam<Case> {};

TEST_P(PingPong, NeverStalls) {
  TestChannel channel;
  const Case& mode = GetParam();
  Producer producer(channel.view(), mode.guest);
  ReplyPool replies(channel.view(), mode.guest);
  Consumer consumer(channel.view(), mode.worker);
  std::thread worker(echo, channel.view(), mode.worker, mode.delay_us_max, &consumer);
  std::mt19937 random(1);
  const uint32_t slot = replies.acquire();
  const int64_t end = now_ns() + 1'500'000'000;
  uint64_t rounds = 0;
  int64_t slowest = 0;
  while (rounds < 2'000'000) {
    const int64_t start = now_ns();
    if (start >= end) break;
    ASSERT_NE(write_record(&producer, 5, Args{rounds}, {}, slot), 0u);
    Reply reply;
    ASSERT_EQ(replies.wait(slot, &reply), WaitResult::kReady);
    slowest = std::max(slowest, now_ns() - start);
    ++rounds;
    random_delay(&random, mode.delay_us_max);
  }
  consumer.mark_dead();
  worker.join();
  RecordProperty("rounds", std::to_string(rounds));
  RecordProperty("slowest_us", std::to_string(slowest / 1000));
  EXPECT_GT(rounds, 100u);
}

INSTANTIATE_TEST_SUITE_P(
    Modes, PingPong,
    testing::Values(Case{"SleepBoth", SpinMode::kNever, SpinMode::kNever, 0},
                    Case{"SleepBothDelays", SpinMode::kNever, SpinMode::kNever, 50},
                    Case{"SpinBoth", SpinMode::kForever, SpinMode::kForever, 0},
                    Case{"SpinGuestSleepWorker", SpinMode::kForever, SpinMode::kNever, 20},
                    Case{"SleepGuestSpinWorker", SpinMode::kNever, SpinMode::kForever, 20},
                    Case{"Adaptive", SpinMode::kAdaptive, SpinMode::kAdaptive, 0},
                    Case{"AdaptiveDelays", SpinMode::kAdaptive, SpinMode::kAdaptive, 50}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

// The CPU number of a peer that runs elsewhere.
uint32_t another_cpu() { return this_cpu() + 1; }

TEST(SpinBudget, FollowsHowLongWaitsLast) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "nobody spins on one CPU";
  SpinBudget budget;
  const auto waited = [&](int64_t ns) {
    budget.begin(1000);
    budget.end(1000 + ns);
    return budget.budget_ns(another_cpu());
  };
  for (int i = 0; i < 20; ++i) waited(2'000'000);
  EXPECT_EQ(budget.budget_ns(another_cpu()), kSpinNsMin);
  // Both sides slept, so the answer took longer than the small budget: spinning would have paid.
  EXPECT_EQ(waited(8'000), 16'000);
  EXPECT_EQ(waited(500), 16'000);
  EXPECT_EQ(waited(40'000), kSpinNsMax);
  EXPECT_EQ(waited(kSpinNsMax + 1), kSpinNsMax / 2);
  EXPECT_EQ(budget.budget_ns(this_cpu()), 0) << "a peer on our own CPU waits for us";
}

// The producer's sleep: a tiny ring that is always full.
TEST(FullRing, SleepingProducerIsAlwaysWoken) {
  TestChannel channel;
  Producer producer(channel.view(), SpinMode::kNever);
  Consumer consumer(channel.view(), SpinMode::kNever);
  constexpr uint64_t kRecords = 30'000;
  std::thread worker([&] {
    std::mt19937 random(3);
    uint64_t seen = 0;
    while (seen < kRecords) {
      Record record;
      const PeekResult result = consumer.peek(&record);
      if (result == PeekResult::kEmpty) {
        ASSERT_EQ(consumer.wait(), WaitResult::kReady);
        continue;
      }
      ASSERT_EQ(result, PeekResult::kRecord);
      consumer.release();
      if (++seen % 8 == 0) random_delay(&random, 20);
    }
  });
  const std::vector<std::byte> blob(30'000);
  for (uint64_t i = 1; i <= kRecords; ++i) ASSERT_EQ(write_record(&producer, 5, Args{i}, blob), i);
  worker.join();
}

}  // namespace
}  // namespace vgpu::protocol
