// The blocks of one cluster together: their shared memory, and how far their barrier is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {

// All blocks of a cluster are run by one SM: one thread at a time. Kept by each of its blocks until
// that ends.
class Cluster {
 public:
  Cluster() = default;
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Prepares for `blocks` blocks (at most kRanks), each with a window of `shared_bytes`;
  // what was there before is forgotten, but not cleared. False when memory cannot be had.
  bool begin(uint32_t blocks, size_t shared_bytes);
  // Rank r's window is r * kClusterWindow bytes further. Behind each is what cannot be accessed.
  uint8_t* memory() const { return memory_; }

  // The barrier's phase: another number as soon as every block has arrived or left.
  uint32_t phase() const { return phase_; }
  // Every thread of one block has arrived, once a phase.
  void arrive();
  // A block has ended; `arrived`: in this phase it has.
  void leave(bool arrived);

 private:
  bool reserve(uint32_t blocks, size_t window_bytes);
  void next_phase_if_due();

  uint8_t* memory_ = nullptr;
  size_t window_bytes_ = 0;
  uint32_t blocks_ = 0;
  uint32_t running_ = 0, arrived_ = 0, phase_ = 0;
};

}  // namespace vgpu::softgpu
