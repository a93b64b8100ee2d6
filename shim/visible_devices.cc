// CUDA_VISIBLE_DEVICES.
// SPDX-License-Identifier: Apache-2.0
#include "shim/visible_devices.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "api/visible_devices.h"

namespace vgpu::shim {

// One vGPU has one device so far: what counts is whether it is seen.
bool device_is_visible(protocol::HelloReply& reply) {
  std::vector<std::string> uuids;
  for (const protocol::DeviceSnapshot& device : reply.devices)
    uuids.push_back(device_uuid_text(device.uuid.data()));
  return !visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids).empty();
}

}  // namespace vgpu::shim
