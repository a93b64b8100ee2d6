// A kernel that runs for too long is noticed, and nothing else is.
// SPDX-License-Identifier: Apache-2.0
#include "server/watchdog.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <mutex>
#include <set>

namespace vgpu::server {
namespace {

// A driver of events only: an event is past when the test says so.
std::mutex g_mutex;
std::set<CUevent> g_past;
std::atomic<uint64_t> g_next{1};

CUresult create(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(g_next++);
  return CUDA_SUCCESS;
}
CUresult destroy(CUevent) { return CUDA_SUCCESS; }
CUresult record(CUevent, CUstream) { return CUDA_SUCCESS; }
CUresult query(CUevent event) {
  std::lock_guard lock(g_mutex);
  return g_past.count(event) != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult set_current(CUcontext) { return CUDA_SUCCESS; }

class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogTest() {
    driver_.cuEventCreate = create;
    driver_.cuEventDestroy_v2 = destroy;
    driver_.cuEventRecord = record;
    driver_.cuEventQuery = query;
    driver_.cuCtxSetCurrent = set_current;
    g_past.clear();
    g_next = 1;
  }
  // Its events are 2n - 1 before and 2n after it.
  void launch(Watchdog* watchdog, uintptr_t stream, uint32_t kernels = 1) {
    EXPECT_EQ(watchdog->watch(&context_, reinterpret_cast<CUstream>(stream), kernels,
                              [] { return CUDA_SUCCESS; }),
              CUDA_SUCCESS);
  }
  void pass(uint64_t event) {
    std::lock_guard lock(g_mutex);
    g_past.insert(reinterpret_cast<CUevent>(event));
  }
  static void sleep_ms(int ms) { (void)poll(nullptr, 0, ms); }
  bool expires_within(int ms) {
    for (int i = 0; i < ms && expired_ == 0; ++i) sleep_ms(1);
    return expired_ != 0;
  }

  DriverTable driver_{};
  Context context_{FlowLimits(1024)};
  std::atomic<int> expired_{0};
};

TEST_F(WatchdogTest, WithoutALimitNothingIsDone) {
  Watchdog watchdog(&driver_, protocol::kUnlimited, [this] { ++expired_; });
  EXPECT_FALSE(watchdog.on());
  launch(&watchdog, 1);
  EXPECT_EQ(g_next, 1U) << "no events";
}

TEST_F(WatchdogTest, AKernelThatRunsOnIsNoticedOnce) {
  Watchdog watchdog(&driver_, 30, [this] { ++expired_; });
  launch(&watchdog, 1);
  pass(1);
  EXPECT_TRUE(expires_within(5000));
  sleep_ms(100);
  EXPECT_EQ(expired_, 1);
}

TEST_F(WatchdogTest, WaitingBeforeAKernelDoesNotCount) {
  Watchdog watchdog(&driver_, 30, [this] { ++expired_; });
  launch(&watchdog, 1);  // its stream waits for something
  launch(&watchdog, 2);
  pass(3);
  pass(4);
  EXPECT_FALSE(expires_within(200));
  pass(1);
  pass(2);
  EXPECT_FALSE(expires_within(100));
}

TEST_F(WatchdogTest, ManyShortKernelsMayTakeLong) {
  Watchdog watchdog(&driver_, 100, [this] { ++expired_; });
  for (int i = 0; i < 20; ++i) launch(&watchdog, 1);
  for (uint64_t event = 1; event <= 40; ++event) {
    pass(event);
    sleep_ms(10);
  }
  EXPECT_EQ(expired_, 0);
}

TEST_F(WatchdogTest, AGraphMayTakeAsLongAsItsKernels) {
  Watchdog watchdog(&driver_, 20, [this] { ++expired_; });
  launch(&watchdog, 1, 1000);
  pass(1);
  EXPECT_FALSE(expires_within(300));
}

}  // namespace
}  // namespace vgpu::server
