// Calls from the worker to the guest: the guest's own functions, which a stream has reached.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_HOST_CALLS_H_
#define VGPU_PROTOCOL_RING_HOST_CALLS_H_

#include <atomic>
#include <cstdint>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/layout.h"
#include "protocol/transport/mover.h"

namespace vgpu::protocol {

// A private copy of an entry.
struct HostCall {
  uint64_t id = 0;
  int32_t status = 0;
};

// Worker side. post() by one thread at a time, wait_finished() by one thread; both may run beside
// each other.
class HostCallWriter {
 public:
  explicit HostCallWriter(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive)
      : page_(view.host_calls()), bell_(view.bell()), spin_(spin_mode(spin, bell_)) {}
  HostCallWriter(const HostCallWriter&) = delete;
  HostCallWriter& operator=(const HostCallWriter&) = delete;

  // Hands a call to the guest and wakes it. False when too many are not finished.
  bool post(const HostCall& call);
  // How many calls were posted.
  uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }

  // Waits until more calls are finished than at the last time, and counts them in *finished (calls
  // since the beginning). kDead when mark_dead() was called or the guest claims what cannot be.
  WaitResult wait_finished(uint64_t* finished);
  // Whether the guest has claimed what cannot be. For the thread that waits.
  bool broken() const { return broken_; }
  // Ends wait_finished, now and for good. Thread-safe.
  void mark_dead();

 private:
  HostCallPage* page_;
  const Bell bell_;
  SpinBudget spin_;
  std::atomic<uint64_t> posted_{0};    // private truth; page_->posted is its publication
  std::atomic<uint64_t> finished_{0};  // as last read and checked
  bool broken_ = false;
  std::atomic<bool> dead_{false};
};

// Guest side: one thread. mark_dead() may be called from any.
class HostCallReader {
 public:
  explicit HostCallReader(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive,
                          Mover* mover = nullptr)
      : page_(view.host_calls()),
        bell_(view.bell()),
        mover_(mover),
        spin_(spin_mode(spin, bell_)) {}
  HostCallReader(const HostCallReader&) = delete;
  HostCallReader& operator=(const HostCallReader&) = delete;

  // Waits for the next call. kDead also when the worker claims what cannot be.
  WaitResult next(HostCall* call);
  // The call that next() gave is over.
  void finish();
  void mark_dead();

 private:
  HostCallPage* page_;
  const Bell bell_;
  Mover* mover_;
  SpinBudget spin_;
  uint64_t finished_ = 0;  // private truth
  std::atomic<bool> dead_{false};
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_HOST_CALLS_H_
