// Whose turn it is.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/round_robin.h"

#include <algorithm>

namespace vgpu::scheduler {

bool RoundRobin::admit(const Work& work, uint64_t) {
  Ring& ring = rings_[static_cast<uint32_t>(work.engine)];
  const auto place = std::find(ring.waiting.begin(), ring.waiting.end(), work.client);
  if (place == ring.waiting.end()) {
    ring.waiting.push_back(work.client);
    if (ring.waiting.size() > 1) return false;
  } else if (place != ring.waiting.begin()) {
    return false;
  }
  if (ring.in_flight >= in_flight_max_) return false;
  ring.waiting.pop_front();
  ++ring.in_flight;
  return true;
}

void RoundRobin::finish(const Work& work, uint64_t, uint64_t) {
  Ring& ring = rings_[static_cast<uint32_t>(work.engine)];
  if (ring.in_flight != 0) --ring.in_flight;
}

void RoundRobin::withdraw(uint64_t client, uint64_t) {
  for (Ring& ring : rings_) std::erase(ring.waiting, client);
}

}  // namespace vgpu::scheduler
