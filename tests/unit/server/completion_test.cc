// Jobs run beside each other, steps one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "server/completion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <future>

namespace vgpu::server {
namespace {

TEST(CompletionPool, ABlockedJobHoldsNobodyUp) {
  std::barrier together(8);
  std::atomic<int> done{0};
  std::promise<void> all;
  CompletionPool pool;
  for (int i = 0; i < 8; ++i) {
    pool.post([&] {
      together.arrive_and_wait();  // returns only when all eight run at the same time
      if (++done == 8) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(CompletionPool, MoreJobsThanThreadsAllRun) {
  constexpr int kJobs = 4 * kCompletionThreadsMax;
  std::atomic<int> done{0};
  std::promise<void> all;
  CompletionPool pool;
  for (int i = 0; i < kJobs; ++i) {
    pool.post([&] {
      if (++done == kJobs) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(CompletionPool, WhatIsQueuedAtTheEndRunsToo) {
  constexpr int kJobs = 1000;
  std::atomic<int> done{0};
  {
    CompletionPool pool;
    for (int i = 0; i < kJobs; ++i) pool.post([&] { ++done; });
  }
  EXPECT_EQ(done, kJobs);
}

TEST(Strand, JobsKeepTheirOrderOnOneThread) {
  std::vector<int> order;
  std::promise<void> all, blocked;
  CompletionPool pool;
  const auto strand = std::make_shared<Strand>(&pool);
  strand->post([&] { blocked.get_future().wait(); });
  for (int i = 0; i < 2 * static_cast<int>(kCompletionThreadsMax); ++i) {
    strand->post([&order, &all, i] {
      order.push_back(i);
      if (i + 1 == 2 * static_cast<int>(kCompletionThreadsMax)) all.set_value();
    });
  }
  std::promise<void> beside;
  pool.post([&] { beside.set_value(); });
  ASSERT_EQ(beside.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  blocked.set_value();
  ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(RetirementQueue, StepsKeepTheirOrder) {
  std::vector<int> order;
  std::promise<void> all;
  RetirementQueue queue;
  for (int i = 0; i < 1000; ++i) {
    queue.post([&order, &all, i] {
      order.push_back(i);
      if (i == 999) all.set_value();
    });
  }
  ASSERT_EQ(all.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace vgpu::server
