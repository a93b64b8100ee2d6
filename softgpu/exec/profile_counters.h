// What an instrumented kernel counts while it runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace vgpu::softgpu {

enum class InstructionClass : uint8_t {
  kFloat32,
  kFloat64,
  kInteger,
  kConvert,
  kControl,
  kGlobal,
  kShared,
  kLocal,
  kAtomic,
  kAcrossLanes,
  kBarrier,
  kOther
};
inline constexpr size_t kInstructionClasses = 12;
inline constexpr std::array<std::string_view, kInstructionClasses> kInstructionClassNames = {
    "float32", "float64", "integer", "convert", "control", "global",
    "shared",  "local",   "atomic",  "warp",    "barrier", "other"};

// What one basic block holds; known when the kernel is compiled.
struct BlockMix {
  std::array<uint32_t, kInstructionClasses> count{};
  uint32_t flops = 0;  // per thread; a fused multiplication and addition is two
};

// Of one launch. All relaxed: numbers that are read when the grid is done.
struct ProfileCounters {
  using Count = std::atomic<uint64_t>;
  explicit ProfileCounters(size_t basic_blocks) : warps(basic_blocks), lanes(basic_blocks) {}

  std::vector<Count> warps, lanes;  // by basic block: how often run, and by how many threads
  // A request is one access by one warp. Sectors have 32 bytes; `ideal` is how few would do for
  // the bytes asked for.
  Count global_requests{0}, global_sectors{0}, global_ideal{0}, global_bytes{0};
  // Passes over the 32 banks of 4 bytes; `ideal` without conflicts.
  Count shared_requests{0}, shared_passes{0}, shared_ideal{0};
  Count branches{0}, divergent_branches{0};
  Count warp_ns{0};  // time that blocks took, times their warps
};

}  // namespace vgpu::softgpu
