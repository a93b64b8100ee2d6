// The semaphore page: words that the worker raises and the guest polls instead of asking.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_SEMAPHORE_H_
#define VGPU_PROTOCOL_RING_SEMAPHORE_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/layout.h"
#include "protocol/transport/mover.h"

namespace vgpu::protocol {

enum class Semaphore : uint8_t { kExecuted, kSlabRetired, kFreeRetired, kOutput };

enum class SessionState : uint32_t {
  kRunning = 0,  // zeroed memory is a running session
  kFailed =
      2,  // a rule was broken or the worker gave up; session_error is the answer to every call
};

// After something that a waiter may look for was stored: wakes all, if there are any.
void wake_waiters(WaitersLine* line);

// Worker side. Thread-safe; each semaphore has one raiser at a time.
class SemaphoreWriter {
 public:
  explicit SemaphoreWriter(const ChannelView& view)
      : page_(view.semaphores()), bell_(view.bell()) {}

  // Sets a semaphore that never falls, and wakes who waits for it. Lower values than before are
  // ignored.
  void raise(Semaphore which, uint64_t value);
  // The same for the credit of one of the guest's devices.
  void raise_credit(uint32_t device, uint64_t bytes);
  // The guest may have so much of a device from now on. Any thread.
  void set_quota(uint32_t device, uint64_t bytes) {
    // relaxed: a number by itself; the worker enforces it.
    if (device < kDevicesMax) page_->quota[device].store(bytes, std::memory_order_relaxed);
  }
  // Ends the session with `result` for every call of the guest, and wakes all waiters.
  void set_state(SessionState state, int32_t result);
  // Puts a sticky error on a context slot; the first one stays. Wakes all waiters.
  void set_sticky(uint32_t slot, int32_t result);
  // A new context takes the slot.
  void clear_sticky(uint32_t slot);
  // One more lane with this word is long, or one less; then wakes all waiters.
  void set_held(uint32_t word, bool held);

 private:
  void raise(std::atomic<uint64_t>* word, uint64_t value);
  void wake_all();
  SemaphorePage* page_;
  const Bell bell_;
};

// Guest side. Thread-safe. Reading is one load.
class SemaphoreReader {
 public:
  explicit SemaphoreReader(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive,
                           Mover* mover = nullptr)
      : page_(view.semaphores()),
        worker_cpu_(&view.header()->head.cpu),
        bell_(view.bell()),
        spin_(spin_mode(spin, bell_)),
        mover_(mover) {}
  SemaphoreReader(const SemaphoreReader&) = delete;
  SemaphoreReader& operator=(const SemaphoreReader&) = delete;

  // acquire: partner is SemaphoreWriter::raise, so results stored before it are visible.
  uint64_t value(Semaphore which) const {
    return line(page_, which).value.load(std::memory_order_acquire);
  }
  // Bytes of a device's memory ever backed; 0 for a device that cannot be.
  uint64_t credit(uint32_t device) const {
    return device < kDevicesMax ? page_->backed_credit[device].load(std::memory_order_acquire) : 0;
  }
  // What may be had of a device since that was changed; 0: it never was.
  uint64_t quota(uint32_t device) const {
    return device < kDevicesMax ? page_->quota[device].load(std::memory_order_relaxed) : 0;
  }
  SessionState state() const {
    return static_cast<SessionState>(page_->session_state.load(std::memory_order_acquire));
  }
  int32_t session_error() const { return page_->session_error.load(std::memory_order_relaxed); }
  // CUresult of a context slot; 0 = healthy. An out-of-range slot is healthy.
  int32_t sticky(uint32_t slot) const {
    return slot < kContextSlots ? page_->sticky[slot].load(std::memory_order_acquire) : 0;
  }

  // Whether a stream with this word must not be given more work. relaxed: nothing is ordered by it.
  bool held(uint32_t word) const {
    return page_->held[word % kHoldWords].load(std::memory_order_relaxed) != 0;
  }

  // Waits for value(which) >= at_least. kDead also when the session has failed.
  WaitResult wait(Semaphore which, uint64_t at_least, int64_t timeout_ns = -1);
  // Waits for credit(device) >= at_least, in the same way.
  WaitResult wait_for_credit(uint32_t device, uint64_t at_least, int64_t timeout_ns = -1);
  // Waits while held(word).
  WaitResult wait_while_held(uint32_t word, int64_t timeout_ns = -1);
  // Waits for something that another thread of this process brings about, who then calls
  // wake_guest_waiters(). `ready` may be asked again after it said yes. kDead as above.
  WaitResult wait_for_guest(const std::function<bool()>& ready);
  void wake_guest_waiters();

  void mark_dead();
  bool dead() const { return dead_.load(std::memory_order_acquire); }

  static SequenceLine& line(SemaphorePage* page, Semaphore which) {
    switch (which) {
      case Semaphore::kExecuted:
        return page->executed;
      case Semaphore::kSlabRetired:
        return page->slab_retired;
      case Semaphore::kFreeRetired:
        return page->free_retired;
      case Semaphore::kOutput:
        break;
    }
    return page->output;
  }

 private:
  template <typename Ready>
  WaitResult wait_until(Ready ready, int64_t timeout_ns);

  SemaphorePage* page_;
  const std::atomic<uint32_t>* worker_cpu_;
  const Bell bell_;
  SpinMode spin_;
  Mover* mover_;
  std::atomic<bool> dead_{false};
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_SEMAPHORE_H_
