// What a CUDA array is made of: extents, texels, mipmap levels; and which arrays may exist.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_GEOMETRY_ARRAY_SHAPE_H_
#define VGPU_API_GEOMETRY_ARRAY_SHAPE_H_

#include <cuda.h>

#include <cstdint>
#include <functional>

namespace vgpu {

// Bytes of one channel; 0 for formats that are not served (planar, block compressed).
uint32_t channel_bytes(CUarray_format format);

// Extents of one mipmap level in texels, none of them 0.
struct LevelExtent {
  uint64_t width = 1, height = 1, slices = 1;  // slices: depth, layers or faces
};

// Height and depth are 0 where the descriptor says so: a 1D array has neither.
struct ArrayShape {
  uint64_t width = 0, height = 0, depth = 0;
  CUarray_format format = CU_AD_FORMAT_UNSIGNED_INT8;
  uint32_t channels = 1;
  uint32_t flags = 0;   // CUDA_ARRAY3D_*
  uint32_t levels = 1;  // of the mipmapped array

  bool layered() const { return (flags & CUDA_ARRAY3D_LAYERED) != 0; }
  bool cubemap() const { return (flags & CUDA_ARRAY3D_CUBEMAP) != 0; }
  // Depth shrinks from level to level; layers and faces do not.
  bool has_depth() const { return depth != 0 && !layered() && !cubemap(); }
  uint32_t texel_bytes() const { return channel_bytes(format) * channels; }
  LevelExtent extent(uint32_t level) const;
  uint64_t level_bytes(uint32_t level) const;  // rows and slices without gaps
  uint64_t level_offset(uint32_t level) const;
  uint64_t bytes() const { return level_offset(levels); }
  // The level as an array of its own.
  ArrayShape of_level(uint32_t level) const;
  CUDA_ARRAY3D_DESCRIPTOR descriptor() const;
};

// The device's value of an attribute.
using AttributeReader = std::function<int(CUdevice_attribute)>;

// Checks a descriptor as cuArray3DCreate (levels 0) and cuMipmappedArrayCreate do; the number of
// levels is clamped as native does. CUDA_ERROR_NOT_SUPPORTED for formats and flags that exist but
// are not served.
CUresult make_shape(const CUDA_ARRAY3D_DESCRIPTOR& descriptor, uint32_t levels,
                    const AttributeReader& attribute, ArrayShape* shape);
CUDA_ARRAY3D_DESCRIPTOR to_3d(const CUDA_ARRAY_DESCRIPTOR& descriptor);

}  // namespace vgpu

#endif  // VGPU_API_GEOMETRY_ARRAY_SHAPE_H_
