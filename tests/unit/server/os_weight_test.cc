// Shares as niceness.
// SPDX-License-Identifier: Apache-2.0
#include "server/os_weight.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace vgpu::server {
namespace {

using scheduler::PriorityClass;
using scheduler::Share;

TEST(OsWeight, StepsAreQuartersAndClassesTen) {
  EXPECT_EQ(nice_steps(Share{}), 0);
  EXPECT_EQ(nice_steps({125}), -1);
  EXPECT_EQ(nice_steps({80}), 1);
  EXPECT_EQ(nice_steps({300}), -5);  // 1.25^5 = 3.05
  EXPECT_EQ(nice_steps({1}), 21);
  EXPECT_EQ(nice_steps({10'000}), -21);
  EXPECT_EQ(nice_steps({100, PriorityClass::kSystem}), -20);
  EXPECT_EQ(nice_steps({100, PriorityClass::kLatency}), -10);
  EXPECT_EQ(nice_steps({100, PriorityClass::kSpot}), 10);
  EXPECT_EQ(nice_steps({300, PriorityClass::kSpot}), 5);
}

// A process with two threads.
class OsWeightOfAnother : public ::testing::Test {
 protected:
  OsWeightOfAnother() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      std::thread other([&] {
        const pid_t own = gettid();
        (void)!write(ends[1], &own, sizeof(own));
        pause();
      });
      pause();
    }
    EXPECT_EQ(read(ends[0], &thread_, sizeof(thread_)), ssize_t{sizeof(thread_)});
    close(ends[0]);
    close(ends[1]);
  }
  ~OsWeightOfAnother() override {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid_ = 0, thread_ = 0;
  const int usual_ = getpriority(PRIO_PROCESS, 0);
};

TEST_F(OsWeightOfAnother, AllItsThreadsAreAsNiceAsThat) {
  if (!may_set_nice()) GTEST_SKIP() << "needs CAP_SYS_NICE";
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), usual_) << "asking leaves no trace";
  for (const int steps : {5, -5, 0}) {
    ASSERT_TRUE(set_nice_steps(pid_, steps));
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(pid_)), usual_ + steps);
    EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(thread_)), usual_ + steps);
  }
  EXPECT_TRUE(set_nice_steps(pid_, 100)) << "as nice as there is";
  EXPECT_EQ(getpriority(PRIO_PROCESS, static_cast<id_t>(pid_)), 19);
}

TEST_F(OsWeightOfAnother, WhoIsNotThereIsNotSet) {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  EXPECT_FALSE(set_nice_steps(pid_, 5));
  pid_ = fork();
  if (pid_ == 0) pause();
}

}  // namespace
}  // namespace vgpu::server
