// The futex_waitv system call, and what stands in for it.
// SPDX-License-Identifier: Apache-2.0
#include "base/futex_any.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/futex.h"

namespace vgpu {
namespace {

constexpr int64_t kLookNs = 1'000'000;

}  // namespace

void futex_wait_any(std::span<const FutexWait> words) {
  const int saved = errno;
  futex_waitv waits[kFutexWaitsMax] = {};
  words = words.first(std::min(words.size(), kFutexWaitsMax));
  for (size_t i = 0; i < words.size(); ++i) {
    waits[i].val = words[i].expected;
    waits[i].uaddr = reinterpret_cast<uintptr_t>(words[i].word);
    waits[i].flags = FUTEX_32;
  }
  const long woken =  // NOLINT(google-runtime-int)
      ::syscall(SYS_futex_waitv, waits, static_cast<unsigned>(words.size()), 0U, nullptr, 0);
  if (woken < 0 && (errno == ENOSYS || errno == EPERM)) {
    const auto same = [](const FutexWait& each) {
      return each.word->load(std::memory_order_acquire) == each.expected;
    };
    while (std::all_of(words.begin(), words.end(), same))
      futex_wait(words[0].word, words[0].expected, kLookNs);
  }
  errno = saved;
}

}  // namespace vgpu
