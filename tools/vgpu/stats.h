// What a guest counted: the JSON that the guest library writes for VGPU_STATS.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_VGPU_STATS_H_
#define VGPU_TOOLS_VGPU_STATS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace vgpu::tools {

struct GuestStats {
  std::optional<uint64_t> round_trips, records, launches;
};

// Reads a file that VGPU_STATS named; members stay empty when it does not say them.
GuestStats read_stats(const std::string& file);
GuestStats parse_stats(const std::string& text);

// The number, or "-".
std::string count_text(const std::optional<uint64_t>& count);

}  // namespace vgpu::tools

#endif  // VGPU_TOOLS_VGPU_STATS_H_
