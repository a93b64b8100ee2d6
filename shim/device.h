// Reading the snapshot of a device.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_DEVICE_H_
#define VGPU_SHIM_DEVICE_H_

#include <cuda.h>

#include "protocol/session/messages.h"
#include "shim/occupancy_model.h"

namespace vgpu::shim {

// 0 for what the server did not say.
inline int attribute(const protocol::DeviceSnapshot& device, CUdevice_attribute which) {
  const auto index = static_cast<size_t>(which);
  return index < device.attributes.size() ? device.attributes[index] : 0;
}

MultiprocessorLimits multiprocessor_limits(const protocol::DeviceSnapshot& device);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_DEVICE_H_
