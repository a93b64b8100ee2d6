// Texels: from memory to what a fetch returns, and filtering between them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "softgpu/exec/texture_view.h"

namespace vgpu::softgpu {

// Four channels: floats when the view reads floats, else integers extended to 32 bits.
union Texel {
  float f[4];
  uint32_t u[4];
};

// Reads guest memory: a fault leaves by longjmp.
Texel read_texel(const TextureView& view, const uint8_t* at);
// What lies outside with the border address mode.
Texel border_texel(const TextureView& view);

// Where an axis is sampled: two neighbours and the weight of the second, in 256ths. Indices are -1
// where the border's colour counts.
struct AxisTaps {
  int32_t first = 0, second = 0;
  uint32_t weight = 0;
};
// `x` in texels or, when the view says so, normalised. Without `filter` only the first counts.
AxisTaps taps_of(const TextureView& view, int axis, float x, uint32_t extent, bool filter);
// The same for an integer coordinate.
AxisTaps taps_of_integer(const TextureView& view, int axis, int32_t x, uint32_t extent);

// A face of a cube map and the place on it, in [0, 1].
struct CubePlace {
  uint32_t face = 0;
  float s = 0, t = 0;
};
CubePlace place_on_cube(float x, float y, float z);
// The same face for a texel next to the edge (one of i, j is outside [0, n)): the neighbour's.
void cross_cube_edge(uint32_t* face, int32_t* i, int32_t* j, uint32_t n);
// How s and t of `face` change with the direction (dx, dy, dz) at (x, y, z).
void cube_gradient(uint32_t face, const float at[3], const float change[3], float* ds, float* dt);

}  // namespace vgpu::softgpu
