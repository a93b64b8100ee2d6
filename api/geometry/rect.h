// Copies of boxes: cuMemcpy2D, cuMemcpy3D and the copies of 1D arrays brought into one form.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_GEOMETRY_RECT_H_
#define VGPU_API_GEOMETRY_RECT_H_

#include <cuda.h>

#include <cstdint>

#include "api/geometry/array_shape.h"

namespace vgpu {

// One end of a copy. For memory `address` is where the box begins and the strides are set; for an
// array x (bytes), y and z say where it begins.
struct RectSide {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  uint64_t address = 0;
  uint64_t pitch = 0;  // bytes from row to row
  uint64_t slice = 0;  // bytes from slice to slice
  CUarray array = nullptr;
  uint64_t x = 0, y = 0, z = 0;

  bool is_array() const { return type == CU_MEMORYTYPE_ARRAY; }
};

// A box of `width` bytes, `height` rows and `depth` slices.
struct RectCopy {
  RectSide to, from;
  uint64_t width = 0, height = 1, depth = 1;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
  uint64_t bytes() const { return width * height * depth; }
  // Bytes from the first to behind the last one in memory with these strides.
  uint64_t span(const RectSide& side) const {
    return (depth - 1) * side.slice + (height - 1) * side.pitch + width;
  }
};

// Checks what does not depend on memory or arrays: types, pitches, overflow.
// CUDA_ERROR_INVALID_VALUE as native. `pitch_max`: CU_DEVICE_ATTRIBUTE_MAX_PITCH in bytes.
CUresult to_rect(const CUDA_MEMCPY2D* copy, uint64_t pitch_max, RectCopy* rect);
CUresult to_rect(const CUDA_MEMCPY3D* copy, uint64_t pitch_max, RectCopy* rect);

// `bytes` of a row of a 1D array, and as many in memory.
RectSide array_side(CUarray array, uint64_t offset);
RectSide memory_side(CUmemorytype type, uint64_t address, uint64_t bytes);

// Whether the box lies in an array of this shape and begins and ends at texels.
CUresult check_in_array(const RectCopy& rect, const RectSide& side, const ArrayShape& shape);

// Cuts a box into boxes of at most `bytes_max` bytes: whole slices, else whole rows, else parts of
// a row. Calls f(x, y, z, width, height, depth) in ascending order until it returns false.
template <typename F>
bool each_piece(const RectCopy& rect, uint64_t bytes_max, F&& f) {
  const uint64_t slice = rect.width * rect.height;
  const uint64_t slices = slice <= bytes_max ? bytes_max / slice : 1;
  const uint64_t rows = slice <= bytes_max        ? rect.height
                        : rect.width <= bytes_max ? bytes_max / rect.width
                                                  : 1;
  const uint64_t width = rect.width <= bytes_max ? rect.width : bytes_max / 16 * 16;
  const auto least = [](uint64_t a, uint64_t b) { return a < b ? a : b; };
  for (uint64_t z = 0; z < rect.depth; z += slices) {
    for (uint64_t y = 0; y < rect.height; y += rows) {
      for (uint64_t x = 0; x < rect.width; x += width) {
        if (!f(x, y, z, least(width, rect.width - x), least(rows, rect.height - y),
               least(slices, rect.depth - z)))
          return false;
      }
    }
  }
  return true;
}

}  // namespace vgpu

#endif  // VGPU_API_GEOMETRY_RECT_H_
