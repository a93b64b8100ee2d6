// Looks at the running grids several times within the time that they have.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/watchdog.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "softgpu/exec/engine_thread.h"
#include "softgpu/exec/grid.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kLooks = 8;  // within the time that a grid has

}  // namespace

void Watchdog::watch(Grid* grid) {
  std::lock_guard<std::mutex> lock(mutex_);
  grids_.push_back(grid);
  if (!running_) running_ = start_engine_thread("vgpu-watchdog", [this] { loop(); });
  added_.notify_one();
}

void Watchdog::forget(Grid* grid) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase(grids_, grid);
}

void Watchdog::loop() {
  const auto pause =
      std::chrono::nanoseconds(std::clamp<uint64_t>(timeout_ns_ / kLooks, 1'000'000, 250'000'000));
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return !grids_.empty(); });
    const uint64_t now = monotonic_ns();
    for (Grid* grid : grids_) {
      const uint64_t began = grid->began_ns.load(std::memory_order_relaxed);
      if (began == 0 || now - began < timeout_ns_ || grid->stopped()) continue;
      expired_(grid);
    }
    added_.wait_for(lock, pause, [] { return false; });
  }
}

}  // namespace vgpu::softgpu
