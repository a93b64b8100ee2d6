// The contended half of the lock.
// SPDX-License-Identifier: Apache-2.0
#include "base/spin_mutex.h"

#include "base/futex.h"

namespace vgpu {

void SpinMutex::lock_slow() {
  constexpr int kSpins = 200;  // about as long as the longest usual section
  for (int spin = 0; spin < kSpins; ++spin) {
    uint32_t expected = 0;
    if (word_.load(std::memory_order_relaxed) == 0 &&
        word_.compare_exchange_weak(expected, 1, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      return;
    }
    __builtin_ia32_pause();
  }
  // acquire: partner is the release in unlock(). From here on the word says 2, so that whoever
  // holds it wakes somebody.
  while (word_.exchange(2, std::memory_order_acquire) != 0) futex_wait(&word_, 2, -1);
}

void SpinMutex::wake() { futex_wake(&word_, 1); }

}  // namespace vgpu
