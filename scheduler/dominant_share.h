// Dominant-resource accounting: of several resources, the one that somebody has most of counts.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_DOMINANT_SHARE_H_
#define VGPU_SCHEDULER_DOMINANT_SHARE_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace vgpu::scheduler {

// What one party has of a resource, and what there is of it.
struct ResourceUse {
  uint64_t used = 0;
  uint64_t capacity = 0;  // 0: there is none, and it does not count
};

// 0 (nothing) to 1 (all of some resource). Who has the least comes next: then nobody can gain by
// asking for more of what others do not want (Ghodsi et al., "Dominant Resource Fairness", NSDI
// 2011).
inline double dominant_share(std::initializer_list<ResourceUse> uses) {
  double most = 0;
  for (const ResourceUse& use : uses) {
    if (use.capacity == 0) continue;
    most = std::max(most, static_cast<double>(use.used) / static_cast<double>(use.capacity));
  }
  return most;
}

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_DOMINANT_SHARE_H_
