// Tensors and their maps for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "softgpu/exec/tensor_map.h"

namespace vgpu::softgpu {

// What an encoder makes of a dense tensor.
inline TensorMap map_of(const void* data, uint32_t type, std::vector<uint32_t> sizes,
                        std::vector<uint16_t> box, uint32_t swizzle = 0) {
  TensorMap map = {};
  map.address = reinterpret_cast<uint64_t>(data);
  map.magic = kTensorMapMagic;
  map.type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(sizes.size());
  map.swizzle = static_cast<uint8_t>(swizzle);
  uint64_t stride = tensor_element_bytes(type);
  for (size_t d = 0; d < sizes.size(); ++d) {
    map.last[d] = sizes[d] - 1;
    map.box[d] = box[d];
    map.steps[d] = 1;
    stride *= sizes[d];
    if (d + 1 < sizes.size()) map.strides[d] = stride;
  }
  return map;
}

// 1, 2, 3, …
template <typename T>
std::vector<T> counting(size_t n) {
  std::vector<T> v(n);
  std::iota(v.begin(), v.end(), T{1});
  return v;
}

}  // namespace vgpu::softgpu
