// Device attributes for a configured capability.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "softgpu/exec/device_config.h"

namespace vgpu::softgpu {

// Features that are not served are 0, as is every attribute we do not know.
int device_attribute(const DeviceConfig& config, CUdevice_attribute attribute);

inline constexpr int kSharedPerBlock = 48 * 1024;  // without opt-in
inline constexpr int kSharedReserved = 1024;       // per block, counted by occupancy
inline constexpr int kRegistersPerSm = 65536;
inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kWarp = 32;

}  // namespace vgpu::softgpu
