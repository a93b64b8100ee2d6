// The named barriers of one block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {

// Counts arrivals; knows nothing of who waits. One thread at a time.
class BarrierUnit {
 public:
  static constexpr uint32_t kBarriers = 16;

  void reset() { state_ = {}; }

  // A warp of `lanes` threads arrives. `votes`: its lanes whose predicate holds.
  void arrive(uint32_t id, uint32_t lanes, uint32_t expected, uint32_t votes) {
    State& s = state_[id % kBarriers];
    s.arrived += lanes;
    s.expected = expected;
    s.votes += static_cast<uint32_t>(std::popcount(votes));
  }

  // `living`: threads of the block that have not left; a barrier for all waits for those only.
  bool open(uint32_t id, uint32_t living) const {
    const State& s = state_[id % kBarriers];
    return s.arrived != 0 && s.arrived >= (s.expected == 0 ? living : s.expected);
  }

  // The value of bar.red; the barrier is then empty again.
  uint32_t release(uint32_t id, uint32_t op) {
    State& s = state_[id % kBarriers];
    const uint32_t result = op == kBarrierPopc  ? s.votes
                            : op == kBarrierAnd ? s.votes == s.arrived
                                                : s.votes != 0;
    s = {};
    return result;
  }

 private:
  struct State {
    uint32_t arrived = 0, expected = 0, votes = 0;
  };
  std::array<State, kBarriers> state_ = {};
};

}  // namespace vgpu::softgpu
