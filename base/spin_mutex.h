// A lock: a few spins, then a futex. Safe to hold in a stranger's process: no allocation,
// no destructor. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_SPIN_MUTEX_H_
#define VGPU_BASE_SPIN_MUTEX_H_

#include <atomic>
#include <cstdint>

namespace vgpu {

// BasicLockable. Words: 0 free, 1 held, 2 held and somebody sleeps. Not recursive. Meant for
// sections of some hundred nanoseconds; whoever must wait for the device lets go first.
class SpinMutex {
 public:
  void lock() {
    uint32_t expected = 0;
    // acquire: partner is the release in unlock().
    if (!word_.compare_exchange_strong(expected, 1, std::memory_order_acquire,
                                       std::memory_order_relaxed))
      lock_slow();
  }
  void unlock() {
    // release: partner is the acquire in lock() and lock_slow().
    if (word_.exchange(0, std::memory_order_release) == 2) wake();
  }
  // In the child of a fork, where no other thread exists: forgets whoever held it.
  void reset_after_fork() { word_.store(0, std::memory_order_relaxed); }

 private:
  void lock_slow();
  void wake();

  std::atomic<uint32_t> word_{0};
};

}  // namespace vgpu

#endif  // VGPU_BASE_SPIN_MUTEX_H_
