// Memory of kernels as runtime helpers reach it: a fault ends the block, so hold nothing meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace vgpu::softgpu {

template <typename T>
T load(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

template <typename T>
void store(uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

}  // namespace vgpu::softgpu
