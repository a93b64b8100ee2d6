// Who a software GPU says it is. Stable per ordinal: it enters libcudart's self-test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace vgpu::softgpu {

inline CUuuid uuid_of(int ordinal) {
  CUuuid uuid;
  std::memcpy(uuid.bytes, "vgpu-softgpu-000", sizeof(uuid.bytes));
  uuid.bytes[15] = static_cast<char>('0' + ordinal);
  return uuid;
}

inline int pci_bus_of(int ordinal) { return ordinal + 1; }

// As nvidia-smi writes it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
inline std::string uuid_text(int ordinal) {
  const CUuuid uuid = uuid_of(ordinal);
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace vgpu::softgpu
