// What kind of device the software GPU is to be: read once from the environment.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SOFTGPU_EXEC_DEVICE_CONFIG_H_
#define VGPU_SOFTGPU_EXEC_DEVICE_CONFIG_H_

#include <cstdint>
#include <string>

namespace vgpu::softgpu {

inline constexpr int kDevicesMax = 16;
inline constexpr uint32_t kSmsMax = 256;  // worker threads, and tokens in the segment
inline constexpr uint32_t kLaunchDepth =
    1024;  // commands waiting in one stream; a full queue blocks the caller
inline constexpr uint32_t kLaunchDepthContrary = 8;

// What one compute capability has per SM and per block. Values from the CUDA programming guide's
// table.
struct CapabilityLimits {
  int major, minor;
  int threads_per_sm;
  int blocks_per_sm;
  int shared_per_sm;         // bytes
  int shared_per_block_max;  // bytes, opt-in
};

struct DeviceConfig {
  int ordinal = 0;             // among the devices that the program sees
  int identity = 0;            // among all of the machine: its UUID and PCI address
  uint64_t memory_bytes;       // VGPU_SOFTGPU_MEMORY: 4G, 512M, bytes; default min(4 GiB, RAM / 4)
  uint32_t sms;                // VGPU_SOFTGPU_SMS; default number of cores
  CapabilityLimits limits;     // VGPU_SOFTGPU_CC, default 12.1
  int clock_khz;               // VGPU_SOFTGPU_CLOCK in MHz, default 1000
  std::string name;            // VGPU_SOFTGPU_NAME
  std::string segment_path;    // VGPU_SOFTGPU_SEGMENT; empty = private to this process
  uint64_t launch_timeout_ms;  // VGPU_SOFTGPU_TIMEOUT in ms: longer kernels end with 702; 0 = never
  bool strict;                 // VGPU_SOFTGPU_STRICT, see strict_mode()
  bool contrary;               // VGPU_SOFTGPU_CONTRARY set: behave like awkward hardware
  bool virtual_memory;         // false in VGPU_SOFTGPU_CONTRARY=novmm: no cuMemMap family
};

// Reads the environment. Values out of range fall back to the default. Thread-safe as getenv is.
DeviceConfig read_device_config();

// VGPU_SOFTGPU_DEVICES: how many the machine has, all alike; default 1.
int machine_devices();

// VGPU_SOFTGPU_STRICT=1: every allocation has pages of its own and ends right before an
// inaccessible one, and misaligned accesses are faults (716). Read once. For finding errors;
// slower.
bool strict_mode();

// VGPU_SOFTGPU_PROFILE: where the profile of all launches is written; empty = no profile. Read
// once.
const std::string& profile_path();

// The limits of capability major.minor, or of the nearest lower one we know.
CapabilityLimits limits_of_capability(int major, int minor);

}  // namespace vgpu::softgpu

#endif  // VGPU_SOFTGPU_EXEC_DEVICE_CONFIG_H_
