// The futex system call: glibc has no wrapper.
// SPDX-License-Identifier: Apache-2.0
#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"

namespace vgpu {

void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  const int saved = errno;
  timespec limit{};
  if (timeout_ns >= 0) {
    limit.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);  // NOLINT(google-runtime-int)
  }
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, expected,
            timeout_ns >= 0 ? &limit : nullptr, nullptr, 0);
  errno = saved;
}

bool futex_wait_changed(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) {
  const uint64_t start = monotonic_ns();
  while (word->load(std::memory_order_acquire) == expected) {
    int64_t left = -1;
    if (timeout_ns >= 0) {
      left = timeout_ns - static_cast<int64_t>(monotonic_ns() - start);
      if (left <= 0) return false;
    }
    futex_wait(word, expected, left);
  }
  return true;
}

int futex_wake(std::atomic<uint32_t>* word, int count) {
  const int saved = errno;
  const long woken =  // NOLINT(google-runtime-int)
      ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, count, nullptr, nullptr,
                0);
  errno = saved;
  return woken > 0 ? static_cast<int>(woken) : 0;
}

}  // namespace vgpu
