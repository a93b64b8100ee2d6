// The shared futex: wakes across processes, ends on time, sleeps through signals.
// SPDX-License-Identifier: Apache-2.0
#include "base/futex.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <thread>

#include "base/clock.h"

namespace vgpu {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(FutexTest, ChangedWordReturnsAtOnce) {
  std::atomic<uint32_t> word{1};
  EXPECT_TRUE(futex_wait_changed(&word, 0, -1));
}

TEST(FutexTest, TimesOutAndKeepsErrno) {
  std::atomic<uint32_t> word{0};
  errno = 42;
  const uint64_t start = monotonic_ns();
  EXPECT_FALSE(futex_wait_changed(&word, 0, kSecondNs / 100));
  EXPECT_GE(monotonic_ns() - start, uint64_t{kSecondNs} / 100);
  EXPECT_EQ(errno, 42);
}

TEST(FutexTest, WakesAnotherProcess) {
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  auto* word = new (page) std::atomic<uint32_t>(0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(futex_wait_changed(word, 0, 30 * kSecondNs) ? 0 : 1);
  word->store(1, std::memory_order_release);
  futex_wake_all(word);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::munmap(page, 4096);
}

TEST(FutexTest, SleepsThroughSignals) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction before;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<uint32_t> word{0};
  std::atomic<bool> done{false};
  std::thread sleeper([&] {
    EXPECT_TRUE(futex_wait_changed(&word, 0, 30 * kSecondNs));
    done.store(true);
  });
  for (int i = 0; i < 20; ++i) {
    ::pthread_kill(sleeper.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  EXPECT_FALSE(done.load());
  word.store(1, std::memory_order_release);
  futex_wake_all(&word);
  sleeper.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace vgpu
