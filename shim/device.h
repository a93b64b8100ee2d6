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

// One of the facts of protocol::kPeerFacts about `device` and another one of the guest's; unknown
// for what the server did not say.
inline int peer_fact(const protocol::DeviceSnapshot& device, CUdevice other, int fact) {
  const size_t index =
      static_cast<size_t>(other) * protocol::kPeerFacts + static_cast<size_t>(fact);
  return index < device.peers.size() ? device.peers[index] : protocol::kPeerFactUnknown;
}

class Session;
// Whether `device` may be given access to memory of `owner`.
bool can_access_peer(Session& session, CUdevice device, CUdevice owner);

MultiprocessorLimits multiprocessor_limits(const protocol::DeviceSnapshot& device);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_DEVICE_H_
