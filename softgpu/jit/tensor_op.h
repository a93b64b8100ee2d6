// Numbers under which emitted code asks the runtime for copies of boxes and changes of tensor maps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace vgpu::softgpu {

// kLoad fills shared memory; the others write to the tensor.
enum class TensorOp : uint32_t { kLoad, kStore, kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

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

}  // namespace vgpu::softgpu
