// What the software GPU writes into the 128 bytes of a CUtensorMap, which CUDA leaves opaque.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstring>

namespace vgpu::softgpu {

inline constexpr uint32_t kTensorRankMax = 5;
inline constexpr uint32_t kTensorBoxMax = 256;      // elements in each dimension
inline constexpr uint32_t kTensorColumnMax = 1024;  // pixels
inline constexpr uint32_t kTensorMapMagic = 0x70616d54;

// What a map describes: boxes, or columns of pixels (im2col).
enum class TensorMode : uint8_t { kTiled, kPixels };

// Dimension 0 changes fastest and has no stride. Programs may write anything here: whoever reads it
// asks valid() first.
//
// Of pixels, dimension 0 is their channels, the last one the images; those between are where pixels
// lie. box[0] is the channels that are copied of each, box[1] how many pixels. lower and upper
// bound the places, upper from the end of the dimension on.
struct TensorMap {
  uint64_t address;                      // of element 0
  uint32_t magic;                        // kTensorMapMagic
  uint8_t type;                          // CUtensorMapDataType
  uint8_t rank;                          // 1 to kTensorRankMax
  uint8_t swizzle;                       // CUtensorMapSwizzle
  uint8_t fill;                          // CUtensorMapFloatOOBfill
  uint64_t strides[kTensorRankMax - 1];  // bytes, of dimensions 1 and up
  uint32_t last[kTensorRankMax];         // size of each dimension in elements, less 1
  uint16_t box[kTensorRankMax];          // elements traversed
  uint8_t steps[kTensorRankMax];         // every n-th of them is copied
  uint8_t mode;                          // TensorMode
  int16_t lower[kTensorRankMax - 2], upper[kTensorRankMax - 2];
  uint8_t unused[32];

  bool valid() const;
  bool pixels() const { return mode == static_cast<uint8_t>(TensorMode::kPixels); }
  uint32_t element_bytes() const;
  // The first and the last place of pixels in dimension d, which is neither the first nor the last.
  int64_t first_place(uint32_t d) const { return lower[d - 1]; }
  int64_t last_place(uint32_t d) const { return int64_t{last[d]} + upper[d - 1]; }
  uint32_t count(uint32_t dimension) const {  // elements copied
    const uint32_t step = dimension == 0 ? 1 : steps[dimension];
    return (box[dimension] + step - 1) / step;
  }
  uint64_t box_bytes() const {
    uint64_t bytes = element_bytes();
    if (pixels()) return bytes * box[0] * box[1];
    for (uint32_t d = 0; d < rank; ++d) bytes *= count(d);
    return bytes;
  }
};
static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));

// Bytes of an element; 0 for types of less than one, which are not supported.
constexpr uint32_t tensor_element_bytes(uint32_t type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

inline uint32_t TensorMap::element_bytes() const { return tensor_element_bytes(type); }

inline bool TensorMap::valid() const {
  if (magic != kTensorMapMagic || rank == 0 || rank > kTensorRankMax || element_bytes() == 0)
    return false;
  if (mode > static_cast<uint8_t>(TensorMode::kPixels) || (pixels() && rank < 3)) return false;
  for (uint32_t d = 0; d < rank; ++d) {
    if (steps[d] == 0) return false;
    if (pixels() && d > 1) continue;
    const uint32_t max = pixels() && d == 1 ? kTensorColumnMax : kTensorBoxMax;
    if (box[d] == 0 || box[d] > max) return false;
  }
  return box[0] * element_bytes() % 16 == 0 && swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B;
}

// Where a byte of a box goes in the block's window: pieces of a row change places by bits of the
// address above them, as the header of CUDA describes each mode.
constexpr uint64_t swizzled(uint64_t at, uint32_t mode) {
  switch (mode) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return at ^ (at >> 3 & 0x10);
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return at ^ (at >> 3 & 0x30);
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return at ^ (at >> 3 & 0x70);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B:
      return at ^ (at >> 2 & 0x60);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B:
      return at ^ (at >> 2 & 0x60) ^ (at >> 4 & 0x08);
    case CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B:
      return at ^ (at >> 1 & 0x40);
    default:
      return at;
  }
}

}  // namespace vgpu::softgpu
