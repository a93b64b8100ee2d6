// Waiting for any of several words.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_FUTEX_ANY_H_
#define VGPU_BASE_FUTEX_ANY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vgpu {

// A word and what it is while nothing has happened.
struct FutexWait {
  std::atomic<uint32_t>* word;
  uint32_t expected;
};
inline constexpr size_t kFutexWaitsMax = 8;

// Sleeps while all words are as expected; woken by a wake on any of them. Returns like futex_wait,
// without a time-out; at most kFutexWaitsMax words. Linux before 5.16, which cannot, looks at the
// words every millisecond.
void futex_wait_any(std::span<const FutexWait> words);

}  // namespace vgpu

#endif  // VGPU_BASE_FUTEX_ANY_H_
