// The FIFO policy's bookkeeping.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fifo.h"

#include <algorithm>

namespace vgpu::scheduler {

bool Fifo::admit(const Work& work, uint64_t) {
  Line& line = of(work.engine);
  const auto same = [&](const Work& other) {
    return other.client == work.client && other.sequence == work.sequence;
  };
  const bool is_next = line.refused.empty() || same(line.refused.front());
  const bool has_room = in_flight_max_ == 0 || line.in_flight < in_flight_max_;
  if (!is_next || !has_room) {
    if (std::none_of(line.refused.begin(), line.refused.end(), same)) line.refused.push_back(work);
    return false;
  }
  if (!line.refused.empty()) line.refused.pop_front();
  ++line.in_flight;
  line.cost_in_flight += work.cost;
  return true;
}

void Fifo::finish(const Work& work, uint64_t, uint64_t) {
  Line& line = of(work.engine);
  if (line.in_flight == 0) return;
  --line.in_flight;
  line.cost_in_flight -= std::min(line.cost_in_flight, work.cost);
}

void Fifo::withdraw(uint64_t client, uint64_t) {
  for (Line& line : lines_) {
    std::erase_if(line.refused, [&](const Work& work) { return work.client == client; });
  }
}

}  // namespace vgpu::scheduler
