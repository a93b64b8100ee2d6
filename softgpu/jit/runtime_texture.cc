// Texture fetches of compiled kernels. They read guest memory: a fault leaves them by longjmp, so
// nothing here may own anything.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "softgpu/exec/block_services.h"
#include "softgpu/jit/runtime.h"
#include "softgpu/jit/texel.h"
#include "softgpu/jit/texture_op.h"

namespace vgpu::softgpu {
namespace {

using Words = const uint32_t (*)[kWarpLanes];

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// One lane's fetch.
struct Fetch {
  const TextureView& view;
  const TextureOp op;
  uint32_t coordinate[4] = {};
  float gradient[2][3] = {};
  float level = 0;

  float coordinate_float(int i) const {
    return op.integer_coordinates ? static_cast<float>(static_cast<int32_t>(coordinate[i]))
                                  : float_of(coordinate[i]);
  }
  bool layered() const {
    return op.geometry == TextureGeometry::k1DLayered ||
           op.geometry == TextureGeometry::k2DLayered ||
           op.geometry == TextureGeometry::kCubeLayered;
  }
  bool cube() const {
    return op.geometry == TextureGeometry::kCube || op.geometry == TextureGeometry::kCubeLayered;
  }
  int axes() const {  // that are not layers
    switch (op.geometry) {
      case TextureGeometry::k1D:
      case TextureGeometry::k1DLayered:
        return 1;
      case TextureGeometry::k3D:
        return 3;
      default:
        return 2;
    }
  }
};

uint32_t extent_of(const TextureLevel& level, int axis) {
  return axis == 0 ? level.width : axis == 1 ? level.height : level.slices;
}

Texel texel_at(const TextureView& view, const TextureLevel& level, int32_t x, int32_t y,
               int32_t z) {
  if (x < 0 || y < 0 || z < 0) return border_texel(view);
  return read_texel(view, level.data + static_cast<uint64_t>(z) * level.slice +
                              static_cast<uint64_t>(y) * level.pitch +
                              static_cast<uint64_t>(x) * view.texel_bytes());
}

// Where one fetch samples a level.
struct Footprint {
  AxisTaps axis[3];
  uint32_t slice = 0;  // first slice of the layer, or the face
};

Texel tap(const Fetch& fetch, const TextureLevel& level, const Footprint& at, int corner) {
  int32_t index[3];
  for (int a = 0; a < 3; ++a)
    index[a] = (corner >> a & 1) != 0 ? at.axis[a].second : at.axis[a].first;
  if (fetch.axes() == 3) return texel_at(fetch.view, level, index[0], index[1], index[2]);
  return texel_at(fetch.view, level, index[0], index[1], static_cast<int32_t>(at.slice));
}

Texel filter(const Fetch& fetch, const TextureLevel& level, const Footprint& at) {
  const int axes = fetch.axes();
  Texel sum = {};
  for (int corner = 0; corner < 1 << axes; ++corner) {
    float weight = 1;
    for (int a = 0; a < axes; ++a) {
      const uint32_t second = at.axis[a].weight;
      weight *= static_cast<float>((corner >> a & 1) != 0 ? second : 256 - second) / 256.0f;
    }
    if (weight == 0) continue;  // not even a NaN or an infinity counts there
    const Texel t = tap(fetch, level, at, corner);
    for (int c = 0; c < 4; ++c) sum.f[c] += weight * t.f[c];
  }
  return sum;
}

// Taps of a face that may reach over its edges onto other faces. At a corner of the cube only three
// faces meet; the fourth texel is the mean of the others.
Texel filter_seamless(const Fetch& fetch, const TextureLevel& level, const CubePlace& place,
                      uint32_t first_slice) {
  const uint32_t n = level.width;
  const auto fixed = [n](float x) {
    const double texels = static_cast<double>(std::clamp(x, 0.0f, 1.0f)) * n;
    return static_cast<int32_t>(std::floor(texels * 256.0 - 127.5));
  };
  const int32_t fs = fixed(place.s), ft = fixed(place.t);
  const float ws = static_cast<float>(fs & 255) / 256.0f;
  const float wt = static_cast<float>(ft & 255) / 256.0f;
  Texel taps[4], mean = {};
  int missing = -1;
  for (int corner = 0; corner < 4; ++corner) {
    int32_t i = (fs >> 8) + (corner & 1), j = (ft >> 8) + (corner >> 1);
    uint32_t face = place.face;
    const auto side = static_cast<int32_t>(n);
    const bool over_s = i < 0 || i >= side, over_t = j < 0 || j >= side;
    if (over_s && over_t) {
      missing = corner;
      continue;
    }
    if (over_s || over_t) cross_cube_edge(&face, &i, &j, n);
    taps[corner] = texel_at(fetch.view, level, i, j, static_cast<int32_t>(first_slice + face));
    for (int c = 0; c < 4; ++c) mean.f[c] += taps[corner].f[c] / 3.0f;
  }
  if (missing >= 0) taps[missing] = mean;
  Texel sum = {};
  for (int corner = 0; corner < 4; ++corner) {
    const float weight = ((corner & 1) != 0 ? ws : 1 - ws) * ((corner >> 1) != 0 ? wt : 1 - wt);
    for (int c = 0; c < 4; ++c) sum.f[c] += weight * taps[corner].f[c];
  }
  return sum;
}

// The four texels that a filter would use, of one channel: counter-clockwise from the lower left.
Texel gather(const Fetch& fetch, const TextureLevel& level, const Footprint& at) {
  constexpr int kCorners[4] = {2, 3, 1, 0};
  Texel out;
  for (int i = 0; i < 4; ++i) out.u[i] = tap(fetch, level, at, kCorners[i]).u[fetch.op.component];
  return out;
}

uint32_t layer_of(const Fetch& fetch, const TextureLevel& level) {
  if (!fetch.layered()) return 0;
  const uint32_t per_layer = fetch.cube() ? 6 : 1;
  const auto layers = static_cast<int32_t>(std::max(level.slices / per_layer, 1u));
  const auto wanted = static_cast<int32_t>(fetch.coordinate[0]);
  return static_cast<uint32_t>(std::clamp(wanted, 0, layers - 1)) * per_layer;
}

Texel sample_level(const Fetch& fetch, uint32_t number) {
  const TextureView& view = fetch.view;
  const TextureLevel& level = view.level[std::min(number, view.level_count - 1)];
  const int first = fetch.layered() ? 1 : 0;
  const bool filtered = view.linear_filter && view.as_float && !fetch.op.integer_coordinates;
  Footprint at;
  at.slice = layer_of(fetch, level);
  float place[3] = {};
  if (fetch.cube()) {
    const CubePlace on =
        place_on_cube(fetch.coordinate_float(first), fetch.coordinate_float(first + 1),
                      fetch.coordinate_float(first + 2));
    if (view.seamless && filtered && !fetch.op.gather)
      return filter_seamless(fetch, level, on, at.slice);
    at.slice = std::min(at.slice + on.face, level.slices - 1);
    place[0] = on.s, place[1] = on.t;
  }
  for (int a = 0; a < fetch.axes(); ++a) {
    const uint32_t extent = extent_of(level, a);
    if (fetch.op.integer_coordinates) {
      const auto i = static_cast<int32_t>(fetch.coordinate[first + a]);
      at.axis[a] = taps_of_integer(view, a, i, extent);
    } else {
      const float x = fetch.cube() ? place[a] : fetch.coordinate_float(first + a);
      at.axis[a] = taps_of(view, a, x, extent, filtered || fetch.op.gather);
    }
  }
  if (fetch.op.gather) return gather(fetch, level, at);
  return filtered ? filter(fetch, level, at) : tap(fetch, level, at, 0);
}

// Level of detail from how far neighbouring samples lie apart, in texels of the first level.
// Without anisotropy the longer axis of the footprint counts.
float level_of_gradient(const Fetch& fetch) {
  const TextureLevel& base = fetch.view.level[0];
  float longest = 0;
  const int first = fetch.layered() ? 1 : 0;
  for (int direction = 0; direction < 2; ++direction) {
    float change[3];
    std::memcpy(change, fetch.gradient[direction], sizeof change);
    if (fetch.cube()) {
      const float at[3] = {fetch.coordinate_float(first), fetch.coordinate_float(first + 1),
                           fetch.coordinate_float(first + 2)};
      const uint32_t face = place_on_cube(at[0], at[1], at[2]).face;
      cube_gradient(face, at, fetch.gradient[direction], &change[0], &change[1]);
    }
    float square = 0;
    for (int a = 0; a < fetch.axes(); ++a) {
      const float texels =
          change[a] * (fetch.view.normalized ? static_cast<float>(extent_of(base, a)) : 1.0f);
      square += texels * texels;
    }
    longest = std::max(longest, square);
  }
  return longest > 0 ? 0.5f * std::log2(longest) : -126.0f;
}

Texel sample(const Fetch& fetch) {
  const TextureView& view = fetch.view;
  if (view.level_count == 1) return sample_level(fetch, 0);
  float lod = fetch.op.level == LevelMode::kLevel      ? fetch.level
              : fetch.op.level == LevelMode::kGradient ? level_of_gradient(fetch)
                                                       : 0;
  lod += view.level_bias;
  const auto last = static_cast<float>(view.level_count - 1);
  lod = lod >= view.level_min ? std::min(lod, view.level_max) : view.level_min;  // and NaN
  lod = std::clamp(lod, 0.0f, last);
  if (!view.linear_mip_filter || !view.as_float)
    return sample_level(fetch, static_cast<uint32_t>(std::floor(lod + 0.5f)));
  const auto fixed = static_cast<uint32_t>(std::floor(lod * 256.0f + 0.5f));
  const uint32_t lower = fixed >> 8;
  const float weight = static_cast<float>(fixed & 255) / 256.0f;
  Texel a = sample_level(fetch, lower);
  if (weight == 0) return a;
  const Texel b = sample_level(fetch, lower + 1);
  for (int c = 0; c < 4; ++c) a.f[c] = (1 - weight) * a.f[c] + weight * b.f[c];
  return a;
}

// A row of memory: no filter, no mode; what lies outside reads as zero.
Texel sample_memory(const Fetch& fetch) {
  const TextureLevel& row = fetch.view.level[0];
  const float x = fetch.coordinate_float(0);
  const auto i = fetch.op.integer_coordinates
                     ? static_cast<int64_t>(static_cast<int32_t>(fetch.coordinate[0]))
                     : static_cast<int64_t>(x > -1e9f && x < 1e9f ? std::floor(x) : -1.0f);
  if (i < 0 || i >= static_cast<int64_t>(row.width)) return Texel{};
  return read_texel(fetch.view, row.data + static_cast<uint64_t>(i) * fetch.view.texel_bytes());
}

const TextureView& find_texture(WarpContext* warp, uint64_t handle) {
  const TextureView* view = TextureTable::instance().find(handle);
  if (view == nullptr || view->kind != TextureKind::kTexture)
    warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, handle, "fetch through no texture object");
  return *view;
}

void fetch_lanes(WarpContext* warp, uint32_t bits, uint32_t mask, const uint64_t* handles,
                 Words inputs, uint32_t (*out)[kWarpLanes]) {
  const TextureOp op = TextureOp::unpack(bits);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    Fetch fetch{find_texture(warp, handles[lane]), op};
    for (int i = 0; i < 4; ++i) fetch.coordinate[i] = inputs[i][lane];
    if (op.level == LevelMode::kLevel) fetch.level = float_of(inputs[kLevelInput][lane]);
    if (op.level == LevelMode::kGradient) {
      for (int i = 0; i < 3; ++i) {
        fetch.gradient[0][i] = float_of(inputs[kLevelInput + i][lane]);
        fetch.gradient[1][i] = float_of(inputs[kGradientInput + i][lane]);
      }
    }
    const Texel texel = fetch.view.linear_memory ? sample_memory(fetch) : sample(fetch);
    for (int c = 0; c < 4; ++c) out[c][lane] = texel.u[c];
  }
}

// The numbers that PTX gives formats and channels are those of OpenCL.
uint32_t channel_type(const TextureView& view) {
  const bool scaled = view.kind == TextureKind::kTexture && view.as_float;
  switch (view.format) {
    case CU_AD_FORMAT_SIGNED_INT8:
      return scaled ? 0x10d0 : 0x10d7;
    case CU_AD_FORMAT_SIGNED_INT16:
      return scaled ? 0x10d1 : 0x10d8;
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return scaled ? 0x10d2 : 0x10da;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return scaled ? 0x10d3 : 0x10db;
    case CU_AD_FORMAT_SIGNED_INT32:
      return 0x10d9;
    case CU_AD_FORMAT_UNSIGNED_INT32:
      return 0x10dc;
    case CU_AD_FORMAT_HALF:
      return 0x10dd;
    default:
      return 0x10de;
  }
}

uint32_t answer(const TextureView& view, TextureQuery what, uint32_t number) {
  const TextureLevel& level = view.level[std::min(number, view.level_count - 1)];
  switch (what) {
    case TextureQuery::kWidth:
      return level.width;
    case TextureQuery::kHeight:
      return level.height;
    case TextureQuery::kDepth:
      return view.depth ? level.slices : 1;
    case TextureQuery::kChannelType:
      return channel_type(view);
    case TextureQuery::kChannelOrder:
      return view.channels == 1 ? 0x10b0 : view.channels == 2 ? 0x10b2 : 0x10b5;
    case TextureQuery::kNormalized:
      return view.normalized ? 1 : 0;
    case TextureQuery::kArraySize:
      return view.depth ? 1 : level.slices;
    case TextureQuery::kLevels:
      return view.level_count;
    default:
      return 0;
  }
}

void query_lanes(WarpContext* warp, uint32_t bits, uint32_t mask, const uint64_t* handles,
                 const uint32_t* levels, uint32_t* out) {
  const auto what = static_cast<TextureQuery>(bits);
  for (uint32_t m = mask; m != 0; m &= m - 1) {
    const int lane = __builtin_ctz(m);
    const TextureView* view = TextureTable::instance().find(handles[lane]);
    if (what == TextureQuery::kIsTexture || what == TextureQuery::kIsSurface) {
      const TextureKind wanted =
          what == TextureQuery::kIsTexture ? TextureKind::kTexture : TextureKind::kSurface;
      out[lane] = view != nullptr && view->kind == wanted ? 1 : 0;
      continue;
    }
    if (view == nullptr)
      warp->services->abort(CUDA_ERROR_ILLEGAL_ADDRESS, handles[lane], "query of no texture");
    out[lane] = answer(*view, what, levels[lane]);
  }
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_texture_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_texture", address_of(fetch_lanes)},
                                           {"sg_texture_query", address_of(query_lanes)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
