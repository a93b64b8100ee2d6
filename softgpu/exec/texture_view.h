// Texture and surface objects as kernels see them: handles, and behind them plain descriptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>

#include "base/slot_map.h"

namespace vgpu::softgpu {

inline constexpr uint32_t kTextureLevelsMax = 18;  // 131072 texels wide

// One mipmap level in memory. Extents in texels, none of them 0.
struct TextureLevel {
  const uint8_t* data = nullptr;
  uint32_t width = 1, height = 1, slices = 1;  // slices: depth, layers or faces
  uint64_t pitch = 0, slice = 0;               // bytes from row to row, from slice to slice
};

enum class TextureKind : uint8_t { kTexture, kSurface };

// Plain data, immutable while its handle lives.
struct TextureView {
  TextureKind kind = TextureKind::kTexture;
  bool linear_memory = false;  // a row of memory: no filter, no address mode, zeros outside
  bool linear_filter = false;
  bool linear_mip_filter = false;
  bool normalized = false;  // coordinates
  bool as_float = false;    // texels are read as floats (floats, or integers scaled to [-1, 1])
  bool srgb = false;
  bool seamless = false;  // cube maps filter across faces
  bool depth = false;     // slices are depth: the third axis is filtered
  CUaddress_mode address_mode[3] = {};
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  uint32_t channels = 1, channel_bytes = 1;
  uint32_t level_count = 1;
  float level_bias = 0, level_min = 0, level_max = 0;
  float border[4] = {};
  TextureLevel level[kTextureLevelsMax];

  uint32_t texel_bytes() const { return channels * channel_bytes; }
};

// All objects of the process. find() takes no lock: kernels call it for every fetch. Whoever
// removes a handle first waits for the kernels that may use it.
class TextureTable {
 public:
  static TextureTable& instance();
  // 0 when all handles are taken.
  uint64_t insert(const TextureView& view);
  void remove(uint64_t handle);
  const TextureView* find(uint64_t handle) const { return views_.find(handle); }

 private:
  static constexpr uint64_t kTag = 32;
  std::mutex mutex_;
  SlotMap<TextureView, kTag> views_;
};

}  // namespace vgpu::softgpu
