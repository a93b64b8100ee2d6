// What one guest may hold beside device memory: every limit with a name, a default, and what
// happens at it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_GUEST_LIMITS_H_
#define VGPU_PROTOCOL_GUEST_LIMITS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace vgpu::protocol {

enum class GuestLimit : uint8_t {
  kStreams,
  kEvents,
  kModules,      // modules and libraries
  kHandles,      // everything with a handle: streams, events, modules, arrays, graphs, memory, …
  kPinnedBytes,  // host memory that the device reaches: pinned and managed
  kQueuedBytes,  // host memory of commands that wait for their stream
  kThreads,      // of the worker, that wait for the device in the guest's place
  kLaunchMs,     // the longest that one kernel may run
};
inline constexpr size_t kGuestLimits = 8;
inline constexpr uint64_t kUnlimited = UINT64_MAX;

struct GuestLimitInfo {
  const char* name;    // in the configuration
  const char* unit;    // "": a number; "bytes": a size like 4G; "seconds"
  uint64_t fallback;   // without configuration; of seconds in milliseconds
  uint64_t least;      // no profile may go below
  const char* result;  // what the guest sees at the limit
};

inline constexpr GuestLimitInfo kGuestLimitInfo[kGuestLimits] = {
    {"streams", "", 8192, 1, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"events", "", 262'144, 1, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"modules", "", 65'536, 1, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"handles", "", 1'048'576, 1, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"pinned_memory", "bytes", kUnlimited, 0, "CUDA_ERROR_OUT_OF_MEMORY"},
    {"queued_bytes", "bytes", uint64_t{128} << 20, uint64_t{1} << 20, "the guest waits"},
    {"threads", "", 320, 16, "the guest's calls wait for one another"},
    {"launch_seconds", "seconds", kUnlimited, 1, "CUDA_ERROR_LAUNCH_TIMEOUT, and the session ends"},
};

struct GuestLimits {
  std::array<uint64_t, kGuestLimits> values = [] {
    std::array<uint64_t, kGuestLimits> defaults{};
    for (size_t i = 0; i < kGuestLimits; ++i) defaults[i] = kGuestLimitInfo[i].fallback;
    return defaults;
  }();
  uint64_t of(GuestLimit limit) const { return values[static_cast<size_t>(limit)]; }
  bool operator==(const GuestLimits&) const = default;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_GUEST_LIMITS_H_
