// The FIFO policy's bookkeeping.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fifo.h"

#include <algorithm>

namespace vgpu::scheduler {

bool Fifo::admit(const Work& work) {
  const bool is_next =
      !turn_taken_ || (turn_.client == work.client && turn_.sequence == work.sequence);
  const bool has_room = in_flight_max_ == 0 || in_flight_ < in_flight_max_;
  if (!is_next || !has_room) {
    if (!turn_taken_) {
      turn_taken_ = true;
      turn_ = work;
    }
    return false;
  }
  turn_taken_ = false;
  ++in_flight_;
  cost_in_flight_ += work.cost;
  return true;
}

void Fifo::finish(const Work& work, uint64_t) {
  if (in_flight_ == 0) return;
  --in_flight_;
  cost_in_flight_ -= std::min(cost_in_flight_, work.cost);
}

}  // namespace vgpu::scheduler
