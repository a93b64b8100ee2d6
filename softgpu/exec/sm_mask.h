// Which SMs of a device a grid may run on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "softgpu/exec/device_config.h"

namespace vgpu::softgpu {

// A set of SMs by their numbers. A plain value: programs carry it inside a CUdevResource.
struct SmMask {
  std::array<uint64_t, kSmsMax / 64> words{};

  bool has(uint32_t sm) const { return (words[sm / 64] >> sm % 64 & 1) != 0; }
  void add(uint32_t sm) { words[sm / 64] |= uint64_t{1} << sm % 64; }
  uint32_t count() const {
    uint32_t sum = 0;
    for (const uint64_t word : words) sum += static_cast<uint32_t>(std::popcount(word));
    return sum;
  }
  // Whether one of them is below `end`.
  bool any_below(uint32_t end) const {
    for (uint32_t sm = 0; sm < end; ++sm) {
      if (has(sm)) return true;
    }
    return false;
  }
  // The SMs from `first` on, so many.
  static SmMask range(uint32_t first, uint32_t count) {
    SmMask mask;
    for (uint32_t sm = first; sm < first + count && sm < kSmsMax; ++sm) mask.add(sm);
    return mask;
  }
  bool operator==(const SmMask&) const = default;
};

// Shared by all that a context or a stream is given; null: every SM.
using SmSet = std::shared_ptr<const SmMask>;

}  // namespace vgpu::softgpu
