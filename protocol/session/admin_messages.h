// What operators and owners of guests say to a server: listing with figures, and steering.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_ADMIN_MESSAGES_H_
#define VGPU_PROTOCOL_SESSION_ADMIN_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/limits.h"

namespace vgpu::protocol {

// Parts of a device that work at the same time: computing, copies to it, copies from it.
inline constexpr size_t kEngineFigures = 3;

// Asks for guests with higher session numbers than `after`: a page of them at a time.
struct GuestsRequest {
  uint64_t after = 0;
};

struct DeviceState {
  std::string name;
  std::string uuid;  // "GPU-…"
  uint64_t memory_bytes = 0;
  uint64_t capacity_bytes = 0;  // of these, what can be granted
  uint64_t granted_bytes = 0;
};

// How guests meet each other on a device, by GuestState::mode.
inline constexpr const char* kModeNames[] = {"isolated", "mps", "packed"};

// A guest with all its figures. Times and counts are since it attached.
struct GuestState {
  uint64_t session = 0;
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string executable, label, tenant, profile;
  uint64_t uptime_ms = 0;
  std::vector<uint8_t> devices;         // places in GuestsReply::devices
  std::vector<uint64_t> granted_bytes;  // on each of these
  std::vector<uint64_t> used_bytes;
  uint32_t weight = 0, cap_permille = 0;
  uint8_t priority = 0;  // scheduler::PriorityClass
  uint8_t mode = 0;      // server::SharingMode
  uint64_t kernels = 0;
  uint64_t copied_bytes[2] = {};  // to the device, from it
  uint64_t refused_allocations = 0;
  uint64_t device_ns[kEngineFigures] = {};
  uint64_t wait_ns = 0, throttled_ns = 0;
};

struct GuestsReply {
  std::vector<DeviceState> devices;
  std::vector<GuestState> guests;  // that the asking user may see, by session
  bool more = false;               // ask again after the last of them
  bool draining = false;           // no new guests
  uint32_t waiting = 0;            // guests that wait for a worker
};

enum class SteerAction : uint8_t {
  kLimit = 1,  // the fields that are not 0 become the guest's
  kKill,       // ends the guest's session
  kDrain,      // no new guests from now on
  kUndrain,
};

struct SteerRequest {
  SteerAction action = SteerAction::kLimit;
  uint64_t session = 0;       // kLimit, kKill
  uint64_t memory_bytes = 0;  // on each of its devices
  uint32_t weight = 0;
  uint32_t cap_permille = 0;
  uint32_t priority = 0;  // 1 + scheduler::PriorityClass
};

struct SteerReply {
  uint32_t guests = 0;        // kDrain: that still run
  uint64_t memory_bytes = 0;  // kLimit: what holds now, on the first device
  uint32_t weight = 0;
  uint32_t cap_permille = 0;
  uint32_t priority = 0;
  uint64_t held_bytes = 0;  // more than memory_bytes: what it uses on its devices, and keeps
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_ADMIN_MESSAGES_H_
