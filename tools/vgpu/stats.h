// What a guest counted: the JSON that the guest library writes for VGPU_STATS.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_STATS_H_
#define VGPU_TOOLS_VGPU_STATS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace vgpu::tools {

struct GuestStats {
  std::optional<uint64_t> round_trips, records, launches, ring_bytes;
};

// One JSON object on a line for each process (a guest may have forked): their sums. Members stay
// empty when no line says them.
GuestStats parse_stats(const std::string& text);

// Reads a file that VGPU_STATS named and removes it, since guests append to it.
GuestStats take_stats(const std::string& file);

// The number, or "-".
std::string count_text(const std::optional<uint64_t>& count);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_STATS_H_
