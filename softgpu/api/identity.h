// Who a software GPU says it is, by its number in the machine. Stable: it enters libcudart's
// self-test. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstring>
#include <string>

#include "api/visible_devices.h"

namespace vgpu::softgpu {

inline CUuuid uuid_of(int ordinal) {
  CUuuid uuid;
  std::memcpy(uuid.bytes, "vgpu-softgpu-000", sizeof(uuid.bytes));
  uuid.bytes[15] = "0123456789abcdef"[ordinal % 16];
  return uuid;
}

inline int pci_bus_of(int ordinal) { return ordinal + 1; }

inline std::string uuid_text(int ordinal) {
  const CUuuid uuid = uuid_of(ordinal);
  return device_uuid_text(reinterpret_cast<const unsigned char*>(uuid.bytes));
}

}  // namespace vgpu::softgpu
