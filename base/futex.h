// The futex system call on words that may be shared between processes.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_FUTEX_H_
#define VGPU_BASE_FUTEX_H_

#include <atomic>
#include <climits>
#include <cstdint>

namespace vgpu {

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

// Sleeps while *word == expected, at most `timeout_ns` (< 0: without limit). Returns on any wake,
// time-out, signal or changed word: the caller checks its condition again. Works across processes
// (no FUTEX_PRIVATE_FLAG). errno is left as it was.
void futex_wait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns);

// Wakes up to `count` sleepers on *word. Returns how many woke. errno is left as it was.
int futex_wake(std::atomic<uint32_t>* word, int count);

// Sleeps until *word != expected: spurious wakes and signals (EINTR) are slept through, the time
// that has passed is taken off. Returns false when `timeout_ns` (< 0: without limit) ran out first.
// errno is left as it was. Reads the word with acquire: pairs with the release store of the waker.
bool futex_wait_changed(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns);

inline int futex_wake_all(std::atomic<uint32_t>* word) { return futex_wake(word, INT_MAX); }

}  // namespace vgpu

#endif  // VGPU_BASE_FUTEX_H_
