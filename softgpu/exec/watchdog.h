// Ends kernels that run for too long, as a driver does whose GPU also shows a screen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

namespace vgpu::softgpu {

struct Grid;

// Thread-safe. Never destroyed while grids run; its thread starts with the first grid.
class Watchdog {
 public:
  // `expired` is called on the watchdog's thread, once for each grid whose first block started
  // `timeout_ms` ago and that still runs.
  Watchdog(uint64_t timeout_ms, std::function<void(Grid*)> expired)
      : timeout_ns_(timeout_ms * 1'000'000), expired_(std::move(expired)) {}

  void watch(Grid* grid);
  // From here on the grid may be destroyed.
  void forget(Grid* grid);

 private:
  void loop();

  const uint64_t timeout_ns_;
  const std::function<void(Grid*)> expired_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<Grid*> grids_;
  bool running_ = false;
};

}  // namespace vgpu::softgpu
