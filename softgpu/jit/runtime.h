// Functions that compiled kernels call, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace vgpu::softgpu {

struct RuntimeSymbol {
  const char* name;
  void* address;
};

std::span<const RuntimeSymbol> runtime_memory_symbols();
std::span<const RuntimeSymbol> runtime_warp_symbols();
std::span<const RuntimeSymbol> runtime_sync_symbols();
std::span<const RuntimeSymbol> runtime_service_symbols();
std::span<const RuntimeSymbol> runtime_convert_symbols();
std::span<const RuntimeSymbol> runtime_texture_symbols();
std::span<const RuntimeSymbol> runtime_surface_symbols();
std::span<const RuntimeSymbol> runtime_profile_symbols();
std::span<const RuntimeSymbol> runtime_matrix_symbols();
std::span<const RuntimeSymbol> runtime_async_symbols();
std::span<const RuntimeSymbol> runtime_tensor_symbols();
std::span<const RuntimeSymbol> runtime_device_symbols();

// The lane that shfl reads from, as PTX describes it: `clamp` holds the segment mask (bits 8-12)
// and the bound (bits 0-4). `mode`: 0 up, 1 down, 2 bfly, 3 idx. The own lane when out of bounds.
inline uint32_t shuffle_source(uint32_t mode, uint32_t lane, uint32_t b, uint32_t clamp,
                               bool* inside) {
  const uint32_t offset = b & 31, bound = clamp & 31, segment = clamp >> 8 & 31;
  const uint32_t max_lane = (lane & segment) | (bound & ~segment & 31);
  int64_t from = 0;
  if (mode == 0) {
    from = static_cast<int64_t>(lane) - offset;
    *inside = from >= static_cast<int64_t>(max_lane);
  } else {
    from = mode == 1   ? lane + offset
           : mode == 2 ? lane ^ offset
                       : ((lane & segment) | (offset & ~segment & 31));
    *inside = from <= static_cast<int64_t>(max_lane);
  }
  return *inside ? static_cast<uint32_t>(from) & 31 : lane;
}

}  // namespace vgpu::softgpu
