// Ends the turns of blocks that run for long while others wait for their SM.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace vgpu::softgpu {

inline constexpr uint64_t kTurnNs = 10'000'000;  // how long a block runs while others wait

// Thread-safe. Its thread starts with the first start() and sleeps while nothing waits. Never
// destroyed once it has been started.
class TurnTimer {
 public:
  // `tick` ends what has had its turn; false when nobody waits any more.
  explicit TurnTimer(std::function<bool()> tick) : tick_(std::move(tick)) {}
  // From here on calls `tick` every kTurnNs, until it says false. Cheap while that goes on.
  void start() {
    if (!ticking_.load(std::memory_order_seq_cst)) wake();
  }

 private:
  void wake();
  void loop();

  const std::function<bool()> tick_;
  std::mutex mutex_;
  std::condition_variable started_;
  // Partner: start()'s callers first add what waits; the loop clears it and then looks once more.
  std::atomic<bool> ticking_{false};
  bool running_ = false;
};

}  // namespace vgpu::softgpu
