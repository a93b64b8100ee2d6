// Numbers under which emitted code asks the runtime for copies of boxes and changes of tensor maps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace vgpu::softgpu {

// kLoad fills shared memory; the others write to the tensor.
enum class TensorOp : uint32_t { kLoad, kStore, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

// How the instruction reads the map: a box, a column of pixels (im2col), or four rows that are
// named one by one (gather4).
enum class TensorAccess : uint32_t { kBox, kPixels, kRows };
inline constexpr uint32_t kGatheredRows = 4;

enum class TensorField : uint32_t {
  kAddress,
  kRank,  // less 1
  kBox,
  kSize,
  kStride,
  kStep,
  kFill,
  kSwizzle
};

// What a copy is told, for all lanes: arrays of `lanes` values. `blocks` and `mbarriers` are there
// for loads: bits of the blocks of the cluster that get the box, nullptr for the own one.
struct TensorCopy {
  uint32_t op, access, dimensions, lanes;
  const uint64_t* maps;
  const int32_t* coordinates;  // of each dimension
  const uint32_t* offsets;     // of pixels: of each dimension between the first and the last
  const uint64_t* shared;
  const uint64_t* mbarriers;
  const uint32_t* blocks;
};

}  // namespace vgpu::softgpu
