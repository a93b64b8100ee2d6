// How compiled kernels say what a texture or surface instruction does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {

enum class TextureGeometry : uint8_t { k1D, k2D, k3D, k1DLayered, k2DLayered, kCube, kCubeLayered };
enum class LevelMode : uint8_t { kBase, kLevel, kGradient };

// Operands of one tex or tld4, a word per lane each: [0, 4) coordinates as PTX lists them, 4 the
// level, [4, 8) and [8, 12) the gradients.
inline constexpr uint32_t kTextureInputs = 12;
inline constexpr uint32_t kLevelInput = 4, kGradientInput = 8;

struct TextureOp {
  TextureGeometry geometry = TextureGeometry::k1D;
  LevelMode level = LevelMode::kBase;
  bool integer_coordinates = false;
  bool gather = false;
  uint8_t component = 0;  // of a gather

  constexpr uint32_t pack() const {
    return static_cast<uint32_t>(geometry) | static_cast<uint32_t>(level) << 4 |
           (integer_coordinates ? 1u << 6 : 0u) | (gather ? 1u << 7 : 0u) |
           static_cast<uint32_t>(component) << 8;
  }
  static constexpr TextureOp unpack(uint32_t bits) {
    TextureOp op;
    op.geometry = static_cast<TextureGeometry>(bits & 15);
    op.level = static_cast<LevelMode>(bits >> 4 & 3);
    op.integer_coordinates = (bits >> 6 & 1) != 0;
    op.gather = (bits >> 7 & 1) != 0;
    op.component = static_cast<uint8_t>(bits >> 8 & 3);
    return op;
  }
};

enum class SurfaceMode : uint8_t { kTrap, kClamp, kZero };
enum class SurfaceReduction : uint8_t { kAdd, kMin, kMax, kAnd, kOr };

// Values of a surface access: elements of `bytes` bytes, `count` of them, a vector of 32 each.
struct SurfaceOp {
  TextureGeometry geometry = TextureGeometry::k1D;
  SurfaceMode mode = SurfaceMode::kTrap;
  uint8_t bytes = 4;
  uint8_t count = 1;
  bool formatted = false;  // .p: x counts texels, values are converted to the surface's format
  bool is_signed = false;  // of a reduction
  SurfaceReduction reduction = SurfaceReduction::kAdd;

  constexpr uint32_t pack() const {
    return static_cast<uint32_t>(geometry) | static_cast<uint32_t>(mode) << 4 |
           static_cast<uint32_t>(bytes) << 6 | static_cast<uint32_t>(count) << 10 |
           (formatted ? 1u << 14 : 0u) | (is_signed ? 1u << 15 : 0u) |
           static_cast<uint32_t>(reduction) << 16;
  }
  static constexpr SurfaceOp unpack(uint32_t bits) {
    SurfaceOp op;
    op.geometry = static_cast<TextureGeometry>(bits & 15);
    op.mode = static_cast<SurfaceMode>(bits >> 4 & 3);
    op.bytes = static_cast<uint8_t>(bits >> 6 & 15);
    op.count = static_cast<uint8_t>(bits >> 10 & 7);
    op.formatted = (bits >> 14 & 1) != 0;
    op.is_signed = (bits >> 15 & 1) != 0;
    op.reduction = static_cast<SurfaceReduction>(bits >> 16 & 7);
    return op;
  }
};

// What txq and suq ask for.
enum class TextureQuery : uint8_t {
  kWidth,
  kHeight,
  kDepth,
  kChannelType,
  kChannelOrder,
  kNormalized,
  kArraySize,
  kLevels,
  kIsTexture,
  kIsSurface,
};

}  // namespace vgpu::softgpu
