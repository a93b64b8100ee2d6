// One block's part of its cluster's barrier: which of its threads have arrived, and which wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "softgpu/exec/barrier.h"

namespace vgpu::softgpu {

// By warp and lane. One thread at a time. Threads arrive, and later wait until the phase that they
// arrived in is over; a phase is over when every thread of the cluster has arrived or left.
class ClusterBarrier {
 public:
  void reset() {
    if (used_) *this = {};
  }
  bool used() const { return used_; }

  void arrive(uint32_t warp, uint32_t lanes) {
    used_ = true;
    passed_[warp] &= ~lanes;
    arrived_[warp] |= lanes;
  }
  // Those of `lanes` whose phase is over already: they go on. The others wait.
  uint32_t wait(uint32_t warp, uint32_t lanes) {
    used_ = true;
    const uint32_t passing = lanes & passed_[warp];
    passed_[warp] &= ~passing;
    waiting_[warp] |= lanes & ~passing;
    return passing;
  }

  // Once a phase: true as soon as all lanes that have not left have arrived. `alive`: per warp.
  bool announces(const uint32_t* alive, uint32_t warps) {
    if (announced_) return false;
    uint32_t left = 0;
    for (uint32_t w = 0; w < warps; ++w) {
      if ((alive[w] & ~arrived_[w]) != 0) return false;
      left |= alive[w];
    }
    announced_ = left != 0;
    return announced_;
  }
  bool announced() const { return announced_; }

  // The cluster's phase that this block's threads arrive in.
  uint32_t phase() const { return phase_; }
  // It is over. `waiting` receives the lanes that waited for it.
  void open(uint32_t* waiting, uint32_t warps) {
    for (uint32_t w = 0; w < warps; ++w) {
      waiting[w] = waiting_[w];
      passed_[w] |= arrived_[w] & ~waiting_[w];
    }
    arrived_ = waiting_ = {};
    announced_ = false;
    ++phase_;
  }

 private:
  using Lanes = std::array<uint32_t, kWarpsMax>;
  bool used_ = false, announced_ = false;
  uint32_t phase_ = 0;
  Lanes arrived_ = {}, waiting_ = {};
  Lanes passed_ = {};  // arrived in a phase that is over, and have not waited yet
};

}  // namespace vgpu::softgpu
