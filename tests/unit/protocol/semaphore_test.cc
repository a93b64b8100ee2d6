// The semaphore page: raising, waiting, sticky errors, the end of a session.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

TEST(Semaphore, NeverFalls) {
  TestChannel channel;
  channel.worker->semaphores().raise(Semaphore::kExecuted, 5);
  channel.worker->semaphores().raise(Semaphore::kExecuted, 3);
  EXPECT_EQ(channel.guest->semaphores().value(Semaphore::kExecuted), 5u);
  EXPECT_EQ(channel.guest->semaphores().value(Semaphore::kSlabRetired), 0u);
  EXPECT_EQ(channel.guest->semaphores().wait(Semaphore::kExecuted, 5), WaitResult::kReady);
}

class SemaphoreModes : public testing::TestWithParam<SpinMode> {};

// Several waiters on two semaphores, raised one by one as fast as possible: each step must be seen
// by all.
TEST_P(SemaphoreModes, EveryWaiterSeesEveryStep) {
  TestChannel channel(GetParam());
  constexpr uint64_t kSteps = 5'000;
  std::vector<std::thread> waiters;
  std::atomic<uint64_t> arrived{0};
  for (int t = 0; t < 4; ++t) {
    waiters.emplace_back([&, t] {
      const Semaphore which = t % 2 == 0 ? Semaphore::kExecuted : Semaphore::kFreeRetired;
      for (uint64_t step = 1; step <= kSteps; ++step) {
        ASSERT_EQ(channel.guest->semaphores().wait(which, step), WaitResult::kReady);
        arrived.fetch_add(1);
      }
    });
  }
  for (uint64_t step = 1; step <= kSteps; ++step) {
    channel.worker->semaphores().raise(Semaphore::kExecuted, step);
    channel.worker->semaphores().raise(Semaphore::kFreeRetired, step);
    while (arrived.load() < step * 4) std::this_thread::yield();
  }
  for (std::thread& waiter : waiters) waiter.join();
}

INSTANTIATE_TEST_SUITE_P(Modes, SemaphoreModes,
                         testing::Values(SpinMode::kAdaptive, SpinMode::kNever));

TEST(Semaphore, FirstStickyErrorStays) {
  TestChannel channel;
  SemaphoreWriter& writer = channel.worker->semaphores();
  writer.set_sticky(3, 700);
  writer.set_sticky(3, 719);
  writer.set_sticky(kContextSlots, 1);
  EXPECT_EQ(channel.guest->semaphores().sticky(3), 700);
  EXPECT_EQ(channel.guest->semaphores().sticky(4), 0);
  EXPECT_EQ(channel.guest->semaphores().sticky(kContextSlots), 0);
  writer.clear_sticky(3);
  EXPECT_EQ(channel.guest->semaphores().sticky(3), 0);
}

TEST(Semaphore, FailedSessionWakesWaiters) {
  TestChannel channel(SpinMode::kNever);
  WaitResult result = WaitResult::kReady;
  std::thread waiter(
      [&] { result = channel.guest->semaphores().wait(Semaphore::kSlabRetired, 1); });
  channel.worker->semaphores().set_state(SessionState::kFailed, 999);
  waiter.join();
  EXPECT_EQ(result, WaitResult::kDead);
  EXPECT_EQ(channel.guest->semaphores().session_error(), 999);
  EXPECT_FALSE(channel.guest->usable());
  EXPECT_FALSE(channel.guest->dead());
}

TEST(Semaphore, DeathWakesAndTimeOutEnds) {
  TestChannel channel(SpinMode::kNever);
  EXPECT_EQ(channel.guest->semaphores().wait(Semaphore::kExecuted, 1, 1'000'000),
            WaitResult::kTimeout);
  WaitResult result = WaitResult::kReady;
  std::thread waiter([&] { result = channel.guest->semaphores().wait(Semaphore::kExecuted, 1); });
  channel.guest->mark_dead();
  waiter.join();
  EXPECT_EQ(result, WaitResult::kDead);
}

}  // namespace
}  // namespace vgpu::protocol
