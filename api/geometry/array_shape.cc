// Extents of arrays and their limits.
// SPDX-License-Identifier: Apache-2.0
#include "api/geometry/array_shape.h"

#include <algorithm>
#include <bit>

namespace vgpu {
namespace {

constexpr unsigned kServedFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                  CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                  CUDA_ARRAY3D_COLOR_ATTACHMENT;
constexpr unsigned kKnownFlags = kServedFlags | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_SPARSE |
                                 CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;

// Attributes that bound the three extents; MAX stands for an extent that must be 0.
constexpr CUdevice_attribute kMustBeZero = CU_DEVICE_ATTRIBUTE_MAX;
struct Bounds {
  CUdevice_attribute width, height, depth;
};

constexpr Bounds k1D{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, kMustBeZero, kMustBeZero};
constexpr Bounds k1DMipmapped{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, kMustBeZero,
                              kMustBeZero};
constexpr Bounds k1DSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, kMustBeZero, kMustBeZero};
constexpr Bounds k2D{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH,
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, kMustBeZero};
constexpr Bounds k2DMipmapped{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
                              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, kMustBeZero};
constexpr Bounds k2DGather{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH,
                           CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, kMustBeZero};
constexpr Bounds k2DSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, kMustBeZero};
constexpr Bounds k3D{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH,
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT,
                     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH};
constexpr Bounds k3DAlternate{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
                              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
                              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE};
constexpr Bounds k3DSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH};
constexpr Bounds k1DLayered{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, kMustBeZero,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS};
constexpr Bounds k1DLayeredSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, kMustBeZero,
                                   CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS};
constexpr Bounds k2DLayered{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
                            CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS};
constexpr Bounds k2DLayeredSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH,
                                   CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
                                   CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS};
constexpr Bounds kCubeLayered{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH,
                              CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS};
constexpr Bounds kCubeLayeredSurface{CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
                                     CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH,
                                     CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS};

bool fits(const ArrayShape& s, const Bounds& bounds, const AttributeReader& attribute) {
  const auto within = [&](uint64_t extent, CUdevice_attribute bound) {
    if (bound == kMustBeZero) return extent == 0;
    const int most = attribute(bound);
    return extent >= 1 && most > 0 && extent <= static_cast<uint64_t>(most);
  };
  return within(s.width, bounds.width) && within(s.height, bounds.height) &&
         within(s.depth, bounds.depth);
}

bool cube_fits(const ArrayShape& s, bool surface, const AttributeReader& attribute) {
  if (s.width != s.height || s.depth == 0 || s.depth % 6 != 0) return false;
  if (s.layered()) return fits(s, surface ? kCubeLayeredSurface : kCubeLayered, attribute);
  const int most = attribute(surface ? CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH
                                     : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
  return s.depth == 6 && s.width >= 1 && most > 0 && s.width <= static_cast<uint64_t>(most);
}

bool extents_fit(const ArrayShape& s, bool mipmapped, bool surface,
                 const AttributeReader& attribute) {
  if (s.cubemap()) return cube_fits(s, surface, attribute);
  if (s.layered()) {
    if (s.height == 0) return fits(s, surface ? k1DLayeredSurface : k1DLayered, attribute);
    return fits(s, surface ? k2DLayeredSurface : k2DLayered, attribute);
  }
  if (s.depth != 0) {
    if (surface) return fits(s, k3DSurface, attribute);
    return fits(s, k3D, attribute) || fits(s, k3DAlternate, attribute);
  }
  if (s.height == 0)
    return fits(s, surface ? k1DSurface : mipmapped ? k1DMipmapped : k1D, attribute);
  return fits(s, surface ? k2DSurface : mipmapped ? k2DMipmapped : k2D, attribute);
}

bool known_format(CUarray_format format) {
  return format == CU_AD_FORMAT_UNORM_INT_101010_2 ||
         (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_SNORM_INT16X4);
}

}  // namespace

uint32_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

LevelExtent ArrayShape::extent(uint32_t level) const {
  LevelExtent e;
  e.width = std::max<uint64_t>(width >> level, 1);
  e.height = std::max<uint64_t>(height >> level, 1);
  e.slices = std::max<uint64_t>(has_depth() ? depth >> level : depth, 1);
  return e;
}

uint64_t ArrayShape::level_bytes(uint32_t level) const {
  const LevelExtent e = extent(level);
  return e.width * e.height * e.slices * texel_bytes();
}

uint64_t ArrayShape::level_offset(uint32_t level) const {
  constexpr uint64_t kLevelAlignment = 512;
  uint64_t offset = 0;
  for (uint32_t i = 0; i < level; ++i)
    offset = (offset + level_bytes(i) + kLevelAlignment - 1) / kLevelAlignment * kLevelAlignment;
  return offset;
}

ArrayShape ArrayShape::of_level(uint32_t level) const {
  const LevelExtent e = extent(level);
  ArrayShape shape = *this;
  shape.width = e.width;
  shape.height = height == 0 ? 0 : e.height;
  shape.depth = depth == 0 ? 0 : e.slices;
  shape.levels = 1;
  return shape;
}

CUDA_ARRAY3D_DESCRIPTOR ArrayShape::descriptor() const {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = width;
  d.Height = height;
  d.Depth = depth;
  d.Format = format;
  d.NumChannels = channels;
  d.Flags = flags;
  return d;
}

CUresult make_shape(const CUDA_ARRAY3D_DESCRIPTOR& d, uint32_t levels,
                    const AttributeReader& attribute, ArrayShape* shape) {
  ArrayShape s;
  s.width = d.Width;
  s.height = d.Height;
  s.depth = d.Depth;
  s.format = d.Format;
  s.channels = d.NumChannels;
  s.flags = d.Flags;
  if ((d.Flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (channel_bytes(d.Format) == 0)
    return known_format(d.Format) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & ~kServedFlags) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if (d.NumChannels != 1 && d.NumChannels != 2 && d.NumChannels != 4)
    return CUDA_ERROR_INVALID_VALUE;
  const bool mipmapped = levels != 0;
  if (!extents_fit(s, mipmapped, false, attribute)) return CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & CUDA_ARRAY3D_SURFACE_LDST) != 0 && !extents_fit(s, mipmapped, true, attribute))
    return CUDA_ERROR_INVALID_VALUE;
  if ((d.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) != 0 && !fits(s, k2DGather, attribute))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t longest = std::max({s.width, s.height, s.has_depth() ? s.depth : uint64_t{1}});
  const auto most = static_cast<uint32_t>(std::bit_width(longest));
  s.levels = std::clamp<uint32_t>(levels, 1, most);
  *shape = s;
  return CUDA_SUCCESS;
}

CUDA_ARRAY3D_DESCRIPTOR to_3d(const CUDA_ARRAY_DESCRIPTOR& flat) {
  CUDA_ARRAY3D_DESCRIPTOR d = {};
  d.Width = flat.Width;
  d.Height = flat.Height;
  d.Format = flat.Format;
  d.NumChannels = flat.NumChannels;
  return d;
}

}  // namespace vgpu
