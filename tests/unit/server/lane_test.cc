// Lanes keep their order, wait for each other, and hold nobody up who is not behind them.
// SPDX-License-Identifier: Apache-2.0
#include "server/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <latch>
#include <thread>

#include "base/clock.h"

namespace vgpu::server {
namespace {

class Job : public LaneCommand {
 public:
  explicit Job(std::function<void()> work, std::vector<LanePoint> behind = {})
      : work_(std::move(work)) {
    after = std::move(behind);
    bytes = 100;
  }
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

// Waits for its turn in line 3 until a gate is open.
class Turn : public LaneCommand {
 public:
  Turn(std::latch* gate, std::function<void()> work) : gate_(gate), work_(std::move(work)) {}
  void prepare() override { ++prepared; }
  uint32_t line() const override { return 3; }
  void wait_for_turn() override { gate_->wait(); }
  void run() override { work_(); }
  static inline std::atomic<int> prepared;

 private:
  std::latch* const gate_;
  std::function<void()> work_;
};

class LanesTest : public ::testing::Test {
 protected:
  LanePoint post(Lane* lane, std::function<void()> work, std::vector<LanePoint> behind = {}) {
    return lanes_.post(lane, std::make_unique<Job>(std::move(work), std::move(behind)));
  }
  // A command that keeps the lane busy until open().
  LanePoint block(Lane* lane) {
    return post(lane, [this] { gate_.wait(); });
  }
  void open() { gate_.count_down(); }

  std::latch gate_{1};
  std::mutex mutex_;
  std::vector<int> order_;
  std::vector<std::pair<uint32_t, bool>> holds_;
  Lanes lanes_{[this](uint32_t word, bool held) {
    std::lock_guard lock(mutex_);
    holds_.emplace_back(word, held);
  }};
};

TEST_F(LanesTest, RunInOrderAndAreIdleAfterwards) {
  Lane* lane = lanes_.take();
  EXPECT_TRUE(lane->idle());
  LanePoint last;
  for (int i = 0; i < 1000; ++i) last = post(lane, [this, i] { order_.push_back(i); });
  lanes_.wait(last);
  EXPECT_TRUE(lane->idle());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order_[static_cast<size_t>(i)], i);
}

TEST_F(LanesTest, AStuckLaneHoldsNoOtherUp) {
  Lane *stuck = lanes_.take(), *other = lanes_.take();
  block(stuck);
  const LanePoint behind = post(stuck, [] {});
  lanes_.wait(post(other, [] {}));
  EXPECT_FALSE(behind.passed());
  open();
  lanes_.wait(behind);
}

// More lanes wait for one than there are threads, and that one comes last.
TEST_F(LanesTest, WaitingForALaneTakesNoThread) {
  Lane* first = lanes_.take();
  block(first);
  const LanePoint gate = post(first, [] {});
  std::vector<LanePoint> ends;
  for (unsigned i = 0; i < 3 * kLaneThreadsMax; ++i) {
    ends.push_back(post(lanes_.take(), [] {}, {gate}));
  }
  lanes_.wait(post(lanes_.take(), [] {}));
  EXPECT_FALSE(ends.front().passed());
  open();
  for (const LanePoint& end : ends) lanes_.wait(end);
}

// With two threads: one waits for its turn, in the order in which they came, the other is free.
TEST_F(LanesTest, ALineForTurnsTakesOneThread) {
  Lanes lanes([](uint32_t, bool) {}, 2);
  std::vector<LanePoint> ends;
  for (int i = 0; i < 40; ++i) {
    ends.push_back(lanes.post(lanes.take(), std::make_unique<Turn>(&gate_, [this, i] {
                                std::lock_guard lock(mutex_);
                                order_.push_back(i);
                              })));
  }
  lanes.wait(lanes.post(lanes.take(), std::make_unique<Job>([] {})));
  EXPECT_FALSE(ends.front().passed());
  open();
  for (const LanePoint& end : ends) lanes.wait(end);
  ASSERT_EQ(order_.size(), 40u);
}

// A lane with much to do does not keep the turn.
TEST_F(LanesTest, TurnsGoRound) {
  Lane *first = lanes_.take(), *second = lanes_.take();
  Turn::prepared = 0;
  for (int i = 0; i < 100; ++i) {
    for (Lane* lane : {first, second}) {
      lanes_.post(lane, std::make_unique<Turn>(&gate_, [this, lane, first] {
                    const uint64_t until = monotonic_ns() + 200'000;
                    while (monotonic_ns() < until) continue;
                    std::lock_guard lock(mutex_);
                    order_.push_back(lane == first ? 1 : 2);
                  }));
    }
  }
  while (Turn::prepared < 2) std::this_thread::yield();
  open();
  lanes_.drain();
  for (const int each : {1, 2})
    EXPECT_LT(std::find(order_.begin(), order_.end(), each) - order_.begin(), 50);
  EXPECT_EQ(std::count(order_.begin(), order_.end(), 2), 100);
}

TEST_F(LanesTest, AChainThroughLanesKeepsItsOrder) {
  std::vector<Lane*> lanes;
  for (int i = 0; i < 8; ++i) lanes.push_back(lanes_.take());
  LanePoint before;
  for (int i = 0; i < 4000; ++i) {
    std::vector<LanePoint> behind;
    if (before.lane != nullptr) behind.push_back(before);
    before = post(
        lanes[static_cast<size_t>(i * 5 % 8)], [this, i] { order_.push_back(i); },
        std::move(behind));
  }
  lanes_.wait(before);
  for (int i = 0; i < 4000; ++i) ASSERT_EQ(order_[static_cast<size_t>(i)], i);
}

TEST_F(LanesTest, ALongLaneIsHeldUntilItIsShort) {
  Lane* lane = lanes_.take();
  lane->hold_word = 9;
  block(lane);
  LanePoint last;
  for (uint64_t i = 0; i < kLaneHoldCommands + 10; ++i) last = post(lane, [] {});
  {
    std::lock_guard lock(mutex_);
    ASSERT_EQ(holds_.size(), 1u);
    EXPECT_EQ(holds_[0], std::pair(uint32_t{9}, true));
  }
  open();
  lanes_.wait(last);
  lanes_.drain();
  std::lock_guard lock(mutex_);
  ASSERT_EQ(holds_.size(), 2u);
  EXPECT_EQ(holds_[1], std::pair(uint32_t{9}, false));
}

TEST_F(LanesTest, AtTheBoundThePosterWaits) {
  Lane* lane = lanes_.take();
  block(lane);
  std::atomic<bool> posted{false};
  auto poster = std::async(std::launch::async, [&] {
    for (int i = 0; i < 2; ++i) {
      auto job = std::make_unique<Job>([] {});
      job->bytes = kLaneBytesMax;
      lanes_.post(lane, std::move(job));
    }
    posted = true;
  });
  EXPECT_EQ(poster.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  open();
  poster.get();
  EXPECT_TRUE(posted);
}

TEST_F(LanesTest, StoppingWakesWhoWaitsAndDropsTheRest) {
  Lane *running = lanes_.take(), *parked = lanes_.take();
  block(running);
  const LanePoint last = post(running, [] {});
  bool ran = false;
  const LanePoint never = post(parked, [&] { ran = true; }, {last});
  auto waiter = std::async(std::launch::async, [&] { lanes_.wait(never); });
  // Stopping wakes the waiter although the first command still runs.
  auto opener = std::async(std::launch::async, [&] {
    waiter.wait();
    open();
  });
  lanes_.stop();
  opener.get();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace vgpu::server
