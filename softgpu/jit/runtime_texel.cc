// Texel formats, address modes, and the faces of cubes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "softgpu/jit/texel.h"

namespace vgpu::softgpu {
namespace {

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  float value;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

float from_srgb(float v) {
  return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f);
}

// One channel as a float; integers become fractions of their largest value.
float float_channel(CUarray_format format, const uint8_t* at) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return static_cast<float>(*at) / 255.0f;
    case CU_AD_FORMAT_SIGNED_INT8:
      return std::max(static_cast<float>(load<int8_t>(at)) / 127.0f, -1.0f);
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return static_cast<float>(load<uint16_t>(at)) / 65535.0f;
    case CU_AD_FORMAT_SIGNED_INT16:
      return std::max(static_cast<float>(load<int16_t>(at)) / 32767.0f, -1.0f);
    case CU_AD_FORMAT_HALF:
      return half_to_float(load<uint16_t>(at));
    default:
      return load<float>(at);
  }
}

uint32_t integer_channel(CUarray_format format, const uint8_t* at) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      return *at;
    case CU_AD_FORMAT_SIGNED_INT8:
      return static_cast<uint32_t>(static_cast<int32_t>(load<int8_t>(at)));
    case CU_AD_FORMAT_UNSIGNED_INT16:
      return load<uint16_t>(at);
    case CU_AD_FORMAT_SIGNED_INT16:
      return static_cast<uint32_t>(static_cast<int32_t>(load<int16_t>(at)));
    default:
      return load<uint32_t>(at);
  }
}

// Channels that the format lacks read as 0, the last one as 1.
Texel empty_texel(bool as_float) {
  Texel t = {};
  if (as_float)
    t.f[3] = 1;
  else
    t.u[3] = 1;
  return t;
}

// The largest integer not above x, within what texels can be numbered by.
int32_t floor_index(float x) {
  constexpr float kFar = 1 << 24;
  if (!(x > -kFar)) return x < 0 ? -(1 << 24) : 0;  // NaN counts as 0
  return static_cast<int32_t>(std::floor(std::min(x, kFar)));
}

int32_t clamp_index(int32_t i, uint32_t extent) {
  return std::clamp(i, 0, static_cast<int32_t>(extent) - 1);
}

// A normalised coordinate brought into [0, 1].
float wrapped(float x) {
  const float f = x - std::floor(x);
  return f >= 0 && f <= 1 ? f : 0;  // infinities and NaN
}
float mirrored(float x) {
  const float f = wrapped(x * 0.5f) * 2;
  return f <= 1 ? f : 2 - f;
}

// Neighbours outside the texture, as the mode says.
int32_t outside(CUaddress_mode mode, int32_t i, uint32_t extent) {
  const auto n = static_cast<int32_t>(extent);
  if (i >= 0 && i < n) return i;
  if (mode == CU_TR_ADDRESS_MODE_BORDER) return -1;
  if (mode == CU_TR_ADDRESS_MODE_WRAP) return i < 0 ? (i + n) % n : i % n;
  return clamp_index(i, extent);
}

}  // namespace

Texel read_texel(const TextureView& view, const uint8_t* at) {
  Texel t = empty_texel(view.as_float);
  for (uint32_t c = 0; c < view.channels; ++c) {
    const uint8_t* channel = at + c * view.channel_bytes;
    if (view.as_float) {
      t.f[c] = float_channel(view.format, channel);
      if (view.srgb && c < 3) t.f[c] = from_srgb(t.f[c]);
    } else {
      t.u[c] = integer_channel(view.format, channel);
    }
  }
  return t;
}

Texel border_texel(const TextureView& view) {
  Texel t = empty_texel(view.as_float);
  for (uint32_t c = 0; c < view.channels; ++c) {
    if (view.as_float)
      t.f[c] = view.border[c];
    else  // the colour is given in floats; integer texels take its value
      t.u[c] = static_cast<uint32_t>(
          static_cast<int64_t>(std::clamp(view.border[c], -2147483648.0f, 4294967040.0f)));
  }
  return t;
}

AxisTaps taps_of(const TextureView& view, int axis, float x, uint32_t extent, bool filter) {
  CUaddress_mode mode = view.address_mode[axis];
  const auto n = static_cast<float>(extent);
  if (view.normalized) {
    if (mode == CU_TR_ADDRESS_MODE_WRAP) x = wrapped(x);
    if (mode == CU_TR_ADDRESS_MODE_MIRROR) x = mirrored(x);
    x *= n;
  } else if (mode != CU_TR_ADDRESS_MODE_BORDER) {
    mode = CU_TR_ADDRESS_MODE_CLAMP;
  }
  AxisTaps taps;
  if (!filter) {
    int32_t i = floor_index(x);
    // Rounding may have brought a wrapped coordinate up to the extent itself.
    if (mode == CU_TR_ADDRESS_MODE_WRAP) i = clamp_index(i, extent);
    taps.first = taps.second = outside(mode, i, extent);
    return taps;
  }
  // Positions between texel centres in 256ths, as the hardware keeps them.
  x = x >= -4.0f ? std::min(x, n + 4.0f) : x < 0 ? -4.0f : 0.0f;  // NaN counts as 0
  const auto fixed = static_cast<int32_t>(std::floor(static_cast<double>(x) * 256.0 - 127.5));
  const int32_t first = fixed >> 8;
  taps.weight = static_cast<uint32_t>(fixed & 255);
  taps.first = outside(mode, first, extent);
  taps.second = outside(mode, first + 1, extent);
  return taps;
}

AxisTaps taps_of_integer(const TextureView& view, int axis, int32_t x, uint32_t extent) {
  const bool border = view.address_mode[axis] == CU_TR_ADDRESS_MODE_BORDER;
  AxisTaps taps;
  taps.first = taps.second =
      outside(border ? CU_TR_ADDRESS_MODE_BORDER : CU_TR_ADDRESS_MODE_CLAMP, x, extent);
  return taps;
}

namespace {

// s, t and the major axis of a face as linear functions of the direction.
struct Face {
  float s[3], t[3], m[3];
};
constexpr Face kFaces[6] = {
    {{0, 0, -1}, {0, -1, 0}, {1, 0, 0}}, {{0, 0, 1}, {0, -1, 0}, {-1, 0, 0}},
    {{1, 0, 0}, {0, 0, 1}, {0, 1, 0}},   {{1, 0, 0}, {0, 0, -1}, {0, -1, 0}},
    {{1, 0, 0}, {0, -1, 0}, {0, 0, 1}},  {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}}};

float dot(const float a[3], const float b[3]) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

uint32_t face_of(const float v[3]) {
  const float x = std::fabs(v[0]), y = std::fabs(v[1]), z = std::fabs(v[2]);
  if (x >= y && x >= z) return v[0] >= 0 ? 0 : 1;
  if (y >= z) return v[1] >= 0 ? 2 : 3;
  return v[2] >= 0 ? 4 : 5;
}

}  // namespace

CubePlace place_on_cube(float x, float y, float z) {
  const float v[3] = {x, y, z};
  CubePlace place;
  place.face = face_of(v);
  const Face& face = kFaces[place.face];
  const float m = dot(face.m, v);
  if (!(m > 0)) return place;  // the zero vector and NaN point nowhere
  place.s = (dot(face.s, v) / m + 1) * 0.5f;
  place.t = (dot(face.t, v) / m + 1) * 0.5f;
  return place;
}

void cross_cube_edge(uint32_t* face, int32_t* i, int32_t* j, uint32_t n) {
  const auto centre = [n](int32_t index) {
    return (2.0f * static_cast<float>(index) + 1.0f) / static_cast<float>(n) - 1.0f;
  };
  const float s = centre(*i), t = centre(*j);
  float v[3];
  for (int axis = 0; axis < 3; ++axis) {
    const Face& f = kFaces[*face];
    v[axis] = f.m[axis] + s * f.s[axis] + t * f.t[axis];
  }
  const CubePlace place = place_on_cube(v[0], v[1], v[2]);
  *face = place.face;
  *i = clamp_index(floor_index(place.s * static_cast<float>(n)), n);
  *j = clamp_index(floor_index(place.t * static_cast<float>(n)), n);
}

void cube_gradient(uint32_t face, const float at[3], const float change[3], float* ds, float* dt) {
  const Face& f = kFaces[face];
  const float m = dot(f.m, at), dm = dot(f.m, change);
  if (!(m > 0)) {
    *ds = *dt = 0;
    return;
  }
  *ds = (dot(f.s, change) * m - dot(f.s, at) * dm) / (2 * m * m);
  *dt = (dot(f.t, change) * m - dot(f.t, at) * dm) / (2 * m * m);
}

}  // namespace vgpu::softgpu
