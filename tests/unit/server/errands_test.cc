// Work that blocks, on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#include "server/errands.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace vgpu::server {
namespace {

// Until everything has been finished here.
void finish_all(Errands* errands) {
  while (!errands->idle()) {
    pollfd done{errands->done_fd(), POLLIN, 0};
    ASSERT_EQ(poll(&done, 1, 30'000), 1);
    errands->finish();
  }
}

TEST(Errands, AreDoneElsewhereInOrderAndFinishedHere) {
  auto errands = Errands::create();
  ASSERT_TRUE(errands.ok());
  const auto here = std::this_thread::get_id();
  std::vector<int> worked, finished;
  for (int i = 0; i < 100; ++i) {
    (*errands)->add(
        [&, i] {
          EXPECT_NE(std::this_thread::get_id(), here);
          worked.push_back(i);
        },
        [&, i] {
          EXPECT_EQ(std::this_thread::get_id(), here);
          finished.push_back(i);
        });
  }
  finish_all(errands->get());
  EXPECT_EQ(worked.size(), 100U);
  EXPECT_EQ(worked, finished);
  EXPECT_TRUE(std::is_sorted(worked.begin(), worked.end()));
}

TEST(Errands, TheEndWaitsForTheOneUnderWayAndDropsTheOthers) {
  std::atomic<bool> begun{false}, release{false}, over{false}, second{false};
  {
    auto errands = Errands::create();
    ASSERT_TRUE(errands.ok());
    (*errands)->add(
        [&] {
          begun = true;
          while (!release) std::this_thread::yield();
          over = true;
        },
        [] { ADD_FAILURE() << "nobody finishes it"; });
    (*errands)->add([&] { second = true; }, [] {});
    while (!begun) std::this_thread::yield();
    EXPECT_FALSE((*errands)->idle());
    std::thread later([&release] {
      (void)poll(nullptr, 0, 20);
      release = true;
    });
    later.detach();
  }
  EXPECT_TRUE(over);
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace vgpu::server
