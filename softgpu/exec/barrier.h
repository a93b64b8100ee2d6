// The named barriers of one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {

inline constexpr uint32_t kWarpsMax = 32;  // of a block

// Who has arrived and who waits, by lane. One thread at a time.
class BarrierUnit {
 public:
  static constexpr uint32_t kBarriers = 16;

  struct Arrival {
    uint32_t id = 0;
    uint32_t expected = 0;  // threads; 0 = all of the block that have not left
    uint32_t op = kBarrierSync;
    uint32_t lanes = 0;
    uint32_t votes = 0;  // lanes whose predicate holds
    bool waits = true;   // false for bar.arrive
  };

  void reset() {
    for (uint32_t used = used_; used != 0; used &= used - 1) state_[std::countr_zero(used)] = {};
    used_ = 0;
  }

  void arrive(uint32_t warp, const Arrival& a) {
    const uint32_t id = a.id % kBarriers;
    State& s = state_[id];
    used_ |= 1u << id;
    s.expected = a.expected;
    s.arrived[warp] |= a.lanes;
    if (a.waits) s.waiting[warp] |= a.lanes;
    if (a.op == kBarrierSync) return;
    s.op = a.op;
    s.voters += static_cast<uint32_t>(std::popcount(a.lanes));
    s.votes += static_cast<uint32_t>(std::popcount(a.votes & a.lanes));
  }

  // Barriers that somebody has reached.
  uint32_t used() const { return used_; }
  uint32_t waiting(uint32_t id, uint32_t warp) const { return state_[id].waiting[warp]; }

  // `alive`: per warp the lanes that have not left. With a count the unit is the whole warp, which
  // has arrived when all of its lanes that are left have; parts of a warp count as they are.
  bool complete(uint32_t id, const uint32_t* alive, uint32_t warps) const {
    const State& s = state_[id];
    uint32_t threads = 0;
    bool all = true;
    for (uint32_t w = 0; w < warps; ++w) {
      const bool whole = (alive[w] & ~s.arrived[w]) == 0;
      all = all && whole;
      if (s.arrived[w] != 0)
        threads += whole ? kWarpLanes : static_cast<uint32_t>(std::popcount(s.arrived[w]));
    }
    return s.expected == 0 ? all : threads >= s.expected;
  }

  // The value of bar.red; the barrier is then empty again.
  uint32_t release(uint32_t id) {
    State& s = state_[id];
    const uint32_t result = s.op == kBarrierPopc  ? s.votes
                            : s.op == kBarrierAnd ? s.votes == s.voters
                                                  : s.votes != 0;
    s = {};
    used_ &= ~(1u << id);
    return result;
  }

 private:
  struct State {
    uint32_t expected = 0, op = kBarrierSync, votes = 0, voters = 0;
    std::array<uint32_t, kWarpsMax> arrived = {}, waiting = {};
  };
  std::array<State, kBarriers> state_ = {};
  uint32_t used_ = 0;
};

}  // namespace vgpu::softgpu
