// VGPU_SOFTGPU_PROFILE: what every launch did, written when the process ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softgpu/exec/device_config.h"
#include "softgpu/exec/launch_profile.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

// Counts of one launch, or of all launches of a kernel.
struct KernelProfile {
  std::string name;
  Dim3 grid, block;
  uint64_t launches = 1, blocks = 0, elapsed_ns = 0;
  double theoretical_occupancy = 0, achieved_occupancy = 0;  // of the warps that an SM may hold
  std::array<uint64_t, kInstructionClasses> warp_instructions{};
  uint64_t warp_steps = 0, lane_steps = 0;  // basic blocks run by warps, and by their threads
  uint64_t flops = 0;
  uint64_t global_requests = 0, global_sectors = 0, global_ideal = 0, global_bytes = 0;
  uint64_t shared_requests = 0, shared_passes = 0, shared_ideal = 0;
  uint64_t branches = 0, divergent_branches = 0;
  bool fewer_blocks_than_sms = false;
};

// Takes the counters of a launch over into `profile`.
void read_counters(const ProfileCounters& counters, const std::vector<BlockMix>& mix,
                   KernelProfile* profile);
// One line per finding, in plain words; empty when there is nothing to say.
std::vector<std::string> advice_for(const KernelProfile& profile);
// A table of the kernels with their advice, and everything as JSON.
std::string profile_table(const std::vector<KernelProfile>& launches);
std::string profile_json(const std::vector<KernelProfile>& launches);

// For one launch of an instrumented kernel; nullptr when no profile is wanted.
std::unique_ptr<LaunchProfile> start_profile(const KernelInfo& info, const CompiledKernel& kernel,
                                             const Dim3& grid, const Dim3& block,
                                             uint32_t dynamic_shared, const DeviceConfig& config);

}  // namespace vgpu::softgpu
