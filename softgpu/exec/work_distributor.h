// Hands the blocks of active grids to the SMs: by priority, then what kernels launched before what
// launched it, then by age; each grid in linear block order. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <mutex>
#include <vector>

#include "softgpu/exec/grid.h"

namespace vgpu::softgpu {

inline constexpr uint64_t kChunkBlocksMax = 64;  // blocks handed out at a time
inline constexpr uint64_t kSmallGridBlocks = 4;  // such a grid wakes one SM only

// A run of blocks of one grid. Empty when next == end.
struct Chunk {
  Grid* grid = nullptr;
  uint64_t next = 0;
  uint64_t end = 0;
  bool empty() const { return next == end; }
};

// Thread-safe. Does not own the grids: a grid leaves when its last block is handed out.
class WorkDistributor {
 public:
  explicit WorkDistributor(uint32_t sms) : sms_(sms) {}

  void add(Grid* grid);
  // The next blocks of the most urgent grid whose priority is below `below` (lower = more urgent).
  // Of a stopped grid all that is left comes in one chunk. False when there is none.
  bool claim(Chunk* chunk, int below = INT_MAX);
  // Priority of the most urgent grid that waits; INT_MAX when none does. A hint.
  int top_priority() const { return top_priority_.load(std::memory_order_relaxed); }

  // Sleeps until something is added after `seen` was read. Idle SMs cost no CPU here.
  uint32_t version() const { return word_.load(std::memory_order_seq_cst); }
  void wait(uint32_t seen, int64_t timeout_ns);
  // Looks for something new for some microseconds: waking a sleeper takes longer than many kernels.
  void linger(uint32_t seen) const;

 private:
  void publish_top();

  const uint32_t sms_;
  std::mutex mutex_;
  std::vector<Grid*> active_;  // most urgent first
  std::atomic<int> top_priority_{INT_MAX};
  // Partner: wait() raises sleepers_ and then lets the kernel compare word_; add() bumps word_ and
  // then reads sleepers_.
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace vgpu::softgpu
