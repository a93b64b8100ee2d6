// Numbers under which emitted code asks the runtime for operations across lanes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace vgpu::softgpu {

enum class SyncOp : uint32_t { kBarrier, kShuffle, kVote, kMatch, kReduce, kElect };
enum class VoteMode : uint32_t { kAll, kAny, kUniform, kBallot };
enum class ReduceOp : uint32_t {
  kAdd,
  kMinSigned,
  kMinUnsigned,
  kMaxSigned,
  kMaxUnsigned,
  kAnd,
  kOr,
  kXor
};

// Lanes meet when their codes and member masks are equal. `mode`: of shfl (0 up, 1 down, 2 bfly,
// 3 idx), a VoteMode, a ReduceOp, or 1 for match.all.
constexpr uint32_t sync_code(SyncOp op, uint32_t mode) {
  return static_cast<uint32_t>(op) << 8 | mode;
}

}  // namespace vgpu::softgpu
