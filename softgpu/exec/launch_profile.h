// The profile of one launch while it runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "softgpu/exec/profile_counters.h"

namespace vgpu::softgpu {

struct LaunchProfile {
  explicit LaunchProfile(size_t basic_blocks) : counters(basic_blocks) {}
  ProfileCounters counters;
  // Called once, when the grid has ended; nanoseconds since its first block started.
  std::function<void(const ProfileCounters&, uint64_t)> done;
};

}  // namespace vgpu::softgpu
