// The timer's thread.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/turn_timer.h"

#include <chrono>

#include "softgpu/exec/engine_thread.h"

namespace vgpu::softgpu {

void TurnTimer::wake() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!running_) running_ = start_engine_thread("vgpu-turns", [this] { loop(); });
  ticking_.store(true, std::memory_order_seq_cst);
  started_.notify_one();
}

void TurnTimer::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    started_.wait(lock, [this] { return ticking_.load(std::memory_order_relaxed); });
    started_.wait_for(lock, std::chrono::nanoseconds(kTurnNs), [] { return false; });
    lock.unlock();
    bool more = tick_();
    if (!more) {
      ticking_.store(false, std::memory_order_seq_cst);
      more = tick_();
      if (more) ticking_.store(true, std::memory_order_seq_cst);
    }
    lock.lock();
  }
}

}  // namespace vgpu::softgpu
