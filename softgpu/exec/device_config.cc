// Environment of the software GPU.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/device_config.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/env.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

constexpr CapabilityLimits kCapabilities[] = {
    {7, 5, 1024, 16, 65536, 65536},    {8, 0, 2048, 32, 167936, 166912},
    {8, 6, 1536, 16, 102400, 101376},  {8, 7, 1536, 16, 167936, 166912},
    {8, 9, 1536, 24, 102400, 101376},  {9, 0, 2048, 32, 233472, 232448},
    {10, 0, 2048, 32, 233472, 232448}, {12, 0, 1536, 24, 102400, 101376},
    {12, 1, 1536, 24, 102400, 101376},
};

uint64_t memory_default() {
  const uint64_t ram = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min<uint64_t>(4096 * kMiB, ram / 4) & ~(2 * kMiB - 1);
}

uint32_t cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  }
  return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

CapabilityLimits limits_of_capability(int major, int minor) {
  CapabilityLimits found = kCapabilities[0];
  for (const CapabilityLimits& row : kCapabilities) {
    if (row.major * 10 + row.minor <= major * 10 + minor) found = row;
  }
  if (major * 10 + minor >= 75) {
    found.major = major;
    found.minor = minor;
  }
  return found;
}

int machine_devices() {
  const int64_t wanted = env_integer("VGPU_SOFTGPU_DEVICES", 1);
  return wanted >= 1 && wanted <= kDevicesMax ? static_cast<int>(wanted) : 1;
}

bool strict_mode() {
  static const bool strict = env_bool("VGPU_SOFTGPU_STRICT", false);
  return strict;
}

const std::string& profile_path() {
  static const auto* const path =
      new std::string(env_text("VGPU_SOFTGPU_PROFILE").value_or(std::string_view()));
  return *path;
}

DeviceConfig read_device_config() {
  DeviceConfig config;
  config.memory_bytes = env_size("VGPU_SOFTGPU_MEMORY", 0) & ~(2 * kMiB - 1);
  if (config.memory_bytes == 0) config.memory_bytes = memory_default();
  const int64_t sms = env_integer("VGPU_SOFTGPU_SMS", 0);
  config.sms = sms > 0 ? static_cast<uint32_t>(std::min<int64_t>(sms, kSmsMax)) : cores();
  config.sms = std::clamp<uint32_t>(config.sms, 1, kSmsMax);
  int capability = 121;
  if (const auto text = env_text("VGPU_SOFTGPU_CC")) {
    const size_t dot = text->find('.');
    const auto major = parse_integer(text->substr(0, dot));
    const auto minor =
        dot == text->npos ? std::optional<int64_t>(0) : parse_integer(text->substr(dot + 1));
    if (major && minor && *major >= 7 && *major < 100 && *minor >= 0 && *minor < 10) {
      capability = static_cast<int>(*major * 10 + *minor);
    }
  }
  config.limits = limits_of_capability(capability / 10, capability % 10);
  const int64_t mhz = env_integer("VGPU_SOFTGPU_CLOCK", 1000);
  config.clock_khz = static_cast<int>(mhz > 0 && mhz < 100000 ? mhz * 1000 : 1000000);
  config.name = env_text("VGPU_SOFTGPU_NAME").value_or("vGPU software GPU");
  config.segment_path = env_text("VGPU_SOFTGPU_SEGMENT").value_or("");
  config.launch_timeout_ms =
      static_cast<uint64_t>(std::max<int64_t>(0, env_integer("VGPU_SOFTGPU_TIMEOUT", 0)));
  config.strict = strict_mode();
  const std::string_view contrary = env_text("VGPU_SOFTGPU_CONTRARY").value_or("0");
  config.contrary = contrary != "0";
  config.virtual_memory = contrary != "novmm";
  return config;
}

}  // namespace vgpu::softgpu
