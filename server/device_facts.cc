// Attributes by their numbers.
// SPDX-License-Identifier: Apache-2.0
#include "server/device_facts.h"

namespace vgpu::server {

std::array<int32_t, protocol::kDeviceFacts> device_facts(const DriverTable& driver,
                                                         CUdevice number) {
  static constexpr CUdevice_attribute kAttributes[protocol::kDeviceFacts] = {
      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
      CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
      CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
      CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
      CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
      CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
      CU_DEVICE_ATTRIBUTE_ECC_ENABLED};
  std::array<int32_t, protocol::kDeviceFacts> facts{};
  for (size_t i = 0; i < facts.size(); ++i) {
    int value = 0;
    if (driver.cuDeviceGetAttribute(&value, kAttributes[i], number) == CUDA_SUCCESS)
      facts[i] = value;
  }
  return facts;
}

bool reaches_host_memory(const DriverTable& driver, CUdevice number) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, number) ==
             CUDA_SUCCESS &&
         value != 0;
}

}  // namespace vgpu::server
