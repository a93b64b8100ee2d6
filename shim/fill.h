// Filling memory with a value, on the device or here: for cuMemsetD* and cuMemsetD2D*.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_FILL_H_
#define VGPU_SHIM_FILL_H_

#include <cuda.h>

#include <cstdint>

namespace vgpu::shim {

// `height` rows of `count` elements of `width` bytes, `pitch` bytes apart.
struct Fill {
  uint64_t to, pitch;
  uint32_t value, width;
  uint64_t count, height;
};

// In the order of the stream `handle`. kWaits is for the functions without a stream: as native,
// they return before device memory is filled, but not before memory that the host reads in place
// is.
enum class FillEnd : uint8_t { kReturns, kWaits };
CUresult fill(Fill f, CUstream handle, FillEnd end);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_FILL_H_
