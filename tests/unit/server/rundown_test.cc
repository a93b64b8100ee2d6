// Closing waits for those inside and refuses the rest.
// SPDX-License-Identifier: Apache-2.0
#include "server/rundown.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

namespace vgpu::server {
namespace {

TEST(Rundown, ClosesAtOnceWhenNobodyIsInside) {
  Rundown rundown;
  { EXPECT_TRUE(static_cast<bool>(Rundown::Use(&rundown))); }
  rundown.close();
  EXPECT_FALSE(static_cast<bool>(Rundown::Use(&rundown)));
}

TEST(Rundown, WaitsForWhoIsInside) {
  Rundown rundown;
  std::future<void> closer;
  {
    const Rundown::Use use(&rundown);
    ASSERT_TRUE(static_cast<bool>(use));
    closer = std::async(std::launch::async, [&] { rundown.close(); });
    EXPECT_EQ(closer.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    EXPECT_FALSE(static_cast<bool>(Rundown::Use(&rundown))) << "closing has begun";
  }
  closer.get();
}

TEST(Rundown, NobodyIsInsideOnceItIsClosed) {
  for (int round = 0; round < 200; ++round) {
    Rundown rundown;
    std::atomic<bool> closed{false};
    std::vector<std::thread> users;
    for (int t = 0; t < 4; ++t) {
      users.emplace_back([&] {
        while (true) {
          const Rundown::Use use(&rundown);
          if (!use) return;
          ASSERT_FALSE(closed.load());
        }
      });
    }
    rundown.close();
    closed = true;
    for (std::thread& user : users) user.join();
  }
}

}  // namespace
}  // namespace vgpu::server
