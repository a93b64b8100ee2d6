// What monitors and vgpud ask of a device beside its name and memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_DEVICE_FACTS_H_
#define VGPU_SERVER_DEVICE_FACTS_H_

#include <array>

#include "driver_table.h"
#include "protocol/session/figures.h"

namespace vgpu::server {

// By number of protocol::DeviceFact; 0 where the driver knows none.
std::array<int32_t, protocol::kDeviceFacts> device_facts(const DriverTable& driver,
                                                         CUdevice number);

// Whether the device's kernels can read and write the ordinary memory of the process that launches
// them (heterogeneous memory management, address translation services).
bool reaches_host_memory(const DriverTable& driver, CUdevice number);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_DEVICE_FACTS_H_
