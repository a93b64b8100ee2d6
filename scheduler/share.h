// What a guest may have of a device: its weight, class and cap.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_SHARE_H_
#define VGPU_SCHEDULER_SHARE_H_

#include <cstdint>

namespace vgpu::scheduler {

// Parts of a device that work at the same time; each has a queue of its own.
enum class Engine : uint8_t { kCompute, kToDevice, kFromDevice };
inline constexpr uint32_t kEngines = 3;

// A class goes before those below it, but for the minimum that each of those keeps.
enum class PriorityClass : uint8_t { kSystem, kLatency, kNormal, kSpot };
inline constexpr uint32_t kClasses = 4;

inline constexpr uint32_t kWeightMax = 10'000;
inline constexpr uint32_t kPermille = 1'000;

struct Share {
  uint32_t weight = 100;  // 1 .. kWeightMax, among its class
  PriorityClass priority = PriorityClass::kNormal;
  uint32_t cap_permille = kPermille;  // of each engine's time, also when it is idle; 1000 = no cap
  bool operator==(const Share&) const = default;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_SHARE_H_
