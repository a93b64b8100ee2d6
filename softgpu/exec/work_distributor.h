// Hands the blocks of active grids to the SMs: by priority, then what kernels launched before what
// launched it, then by age; each grid in linear block order,
// whole clusters at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "softgpu/exec/grid.h"
#include "softgpu/exec/turn_timer.h"

namespace vgpu::softgpu {

class DeviceSegment;

inline constexpr uint64_t kChunkBlocksMax = 64;  // blocks handed out at a time
inline constexpr uint64_t kSmallGridBlocks = 4;  // such a grid wakes one SM only

// A run of blocks of one grid. Empty when next == end.
struct Chunk {
  Grid* grid = nullptr;
  uint64_t next = 0;
  uint64_t end = 0;
  bool empty() const { return next == end; }
};

// What the distributor knows of one SM. All relaxed but where a comment says so.
struct alignas(64) SmState {
  // Non-zero: the running block is to come back from its next loop. Set by anybody; cleared by the
  // SM before it looks at the grid's stop flag (seq_cst both, so that no stop is missed).
  std::atomic<uint32_t> attention{0};
  std::atomic<const Grid*> running{nullptr};  // compared, never followed
  std::atomic<int> priority{INT_MAX};         // of what it runs
  std::atomic<uint32_t> interrupted{0};  // blocks whose turn was ended and that wait for another
  std::atomic<uint32_t> turn{0};         // counts what it has run
  uint32_t turn_seen = 0;                // at the last tick; the timer's
};

// Thread-safe. Does not own the grids: a grid leaves when its last block is handed out.
class WorkDistributor {
 public:
  // `segment`: where other processes wait for SMs; nullptr = there are none.
  explicit WorkDistributor(uint32_t sms, const DeviceSegment* segment = nullptr);

  // A grid for all SMs, or for those of its set, of which one at least is running.
  void add(Grid* grid);
  // The next blocks for SM `sm`, of the most urgent grid that may run there and whose priority is
  // below `below` (lower = more urgent). Of a stopped grid all that is left comes in one chunk.
  // False when there is none.
  bool claim(Chunk* chunk, uint32_t sm, int below = INT_MAX);
  // The same among all priorities, of a grid that is none of `except`.
  bool claim_other(Chunk* chunk, uint32_t sm, const std::vector<const Grid*>& except);
  // Priority of the most urgent grid that waits; INT_MAX when none does. A hint.
  int top_priority() const { return top_priority_.load(std::memory_order_relaxed); }

  // Sleeps until something is added after `seen` was read. Idle SMs cost no CPU here.
  uint32_t version() const { return word_.load(std::memory_order_seq_cst); }
  void wait(uint32_t seen, int64_t timeout_ns);
  // Looks for something new for some microseconds: waking a sleeper takes longer than many kernels.
  void linger(uint32_t seen) const;

  SmState& sm(uint32_t id) { return states_[id]; }
  // Every running block comes back to its SM soon, since something has happened.
  void interrupt_all();
  // An SM has begun to work, or left a block waiting: from here on long blocks have turns.
  void watch_turns() { timer_.start(); }

 private:
  void publish_top();
  bool take(std::vector<Grid*>::iterator place, Chunk* chunk);
  void interrupt_below(int priority);
  bool end_turns();

  const uint32_t sms_;
  const DeviceSegment* const segment_;
  const std::unique_ptr<SmState[]> states_;
  TurnTimer timer_{[this] { return end_turns(); }};
  std::mutex mutex_;
  std::vector<Grid*> active_;  // most urgent first
  std::atomic<int> top_priority_{INT_MAX};
  // Partner: wait() raises sleepers_ and then lets the kernel compare word_; add() bumps word_ and
  // then reads sleepers_.
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace vgpu::softgpu
