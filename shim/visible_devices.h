// CUDA_VISIBLE_DEVICES, which the driver and not the runtime obeys.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_VISIBLE_DEVICES_H_
#define VGPU_SHIM_VISIBLE_DEVICES_H_

#include "protocol/session/messages.h"

namespace vgpu::shim {

// Drops from `reply` the devices that the environment hides. False when none is left. The list ends
// at the first entry that names no device, as natively.
bool device_is_visible(protocol::HelloReply& reply);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_VISIBLE_DEVICES_H_
