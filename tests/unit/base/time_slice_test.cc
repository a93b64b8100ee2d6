// Short time slices: whoever has them gets in between threads that compute.
// SPDX-License-Identifier: Apache-2.0
#include "base/time_slice.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace vgpu {
namespace {

// Of the calling thread, in nanoseconds; 0: this system has none.
uint64_t slice() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {};
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return 0;
  return attributes.runtime;
}

TEST(TimeSlice, ThreadsInheritShortOnesAndMayGoBack) {
  uint64_t usual = 0, own = 0, childs = 0, back = 0;
  std::thread([&] {
    setpriority(PRIO_PROCESS, 0, 3);
    usual = slice();
    use_short_time_slices();
    own = slice();
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 3) << "nothing else changes";
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    std::thread([&] {
      childs = slice();
      use_usual_time_slices();
      back = slice();
    }).join();
  }).join();
  if (own == usual) GTEST_SKIP() << "this system gives all threads the same slices";
  EXPECT_EQ(own, 100'000u);
  EXPECT_EQ(childs, own);
  EXPECT_EQ(back, usual);
}

}  // namespace
}  // namespace vgpu
