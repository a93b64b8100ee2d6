// Collects the launches of this process and writes them at its end.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/profile.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "softgpu/api/function_attributes.h"

namespace vgpu::softgpu {
namespace {

constexpr size_t kLaunchesMax = 100'000;

// One per process, never destroyed.
class ProfileLog {
 public:
  static ProfileLog& instance() {
    static ProfileLog* const log = new ProfileLog;
    return *log;
  }
  void add(KernelProfile profile) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (launches_.size() < kLaunchesMax) launches_.push_back(std::move(profile));
  }

 private:
  ProfileLog() {
    std::atexit([] { instance().write(); });
  }
  void write() {
    std::lock_guard<std::mutex> lock(mutex_);
    write_file(profile_path(), profile_table(launches_));
    write_file(profile_path() + ".json", profile_json(launches_));
  }
  static void write_file(const std::string& path, const std::string& text) {
    FILE* const file = std::fopen(path.c_str(), "we");
    const bool written =
        file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (!written) VGPU_LOG_ERROR("profile: %s: %s", path.c_str(), std::strerror(errno));
    if (file != nullptr) std::fclose(file);
  }

  std::mutex mutex_;
  std::vector<KernelProfile> launches_;
};

uint64_t value(const ProfileCounters::Count& count) {
  return count.load(std::memory_order_relaxed);
}

}  // namespace

void read_counters(const ProfileCounters& counters, const std::vector<BlockMix>& mix,
                   KernelProfile* profile) {
  for (size_t b = 0; b < mix.size() && b < counters.warps.size(); ++b) {
    const uint64_t warps = value(counters.warps[b]), lanes = value(counters.lanes[b]);
    for (size_t c = 0; c < kInstructionClasses; ++c)
      profile->warp_instructions[c] += warps * mix[b].count[c];
    profile->flops += lanes * mix[b].flops;
    profile->warp_steps += warps;
    profile->lane_steps += lanes;
  }
  profile->global_requests = value(counters.global_requests);
  profile->global_sectors = value(counters.global_sectors);
  profile->global_ideal = value(counters.global_ideal);
  profile->global_bytes = value(counters.global_bytes);
  profile->shared_requests = value(counters.shared_requests);
  profile->shared_passes = value(counters.shared_passes);
  profile->shared_ideal = value(counters.shared_ideal);
  profile->branches = value(counters.branches);
  profile->divergent_branches = value(counters.divergent_branches);
}

std::unique_ptr<LaunchProfile> start_profile(const KernelInfo& info, const CompiledKernel& kernel,
                                             const Dim3& grid, const Dim3& block,
                                             uint32_t dynamic_shared, const DeviceConfig& config) {
  if (profile_path().empty()) return nullptr;
  KernelProfile profile;
  profile.name = info.name;
  profile.grid = grid;
  profile.block = block;
  profile.blocks = uint64_t{grid.x} * grid.y * grid.z;
  profile.fewer_blocks_than_sms = profile.blocks < config.sms;
  const int threads = static_cast<int>(block.x * block.y * block.z);
  const double warps = (threads + 31) / 32;
  const double warps_max = config.limits.threads_per_sm / 32;
  const int resident = blocks_per_sm(info, config.limits, threads, dynamic_shared);
  profile.theoretical_occupancy = resident * warps / warps_max;
  const double all_warps = warps_max * config.sms;
  auto launch = std::make_unique<LaunchProfile>(kernel.mix.size());
  launch->done = [profile, mix = kernel.mix, all_warps](const ProfileCounters& counters,
                                                        uint64_t elapsed_ns) mutable {
    read_counters(counters, mix, &profile);
    profile.elapsed_ns = elapsed_ns;
    if (elapsed_ns != 0) {
      profile.achieved_occupancy = static_cast<double>(value(counters.warp_ns)) /
                                   (static_cast<double>(elapsed_ns) * all_warps);
    }
    ProfileLog::instance().add(profile);
  };
  return launch;
}

}  // namespace vgpu::softgpu
