// What a piece of work will cost, from what its like have cost before.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_ESTIMATE_H_
#define VGPU_SCHEDULER_ESTIMATE_H_

#include <array>
#include <cstdint>

namespace vgpu::scheduler {

// Moving averages of device time by kind of work (a kernel's name hashed with its launch shape,
// say), in a table of fixed size: kinds that collide take each other's place, which costs accuracy
// until the measured time corrects the charge, nothing else. Not thread-safe.
class Estimates {
 public:
  explicit Estimates(uint64_t unknown_ns) : unknown_ns_(unknown_ns) {}

  uint64_t estimate(uint64_t kind) const {
    const Entry& entry = entries_[kind % kEntries];
    return entry.kind == kind && entry.mean_ns != 0 ? entry.mean_ns : unknown_ns_;
  }
  void measured(uint64_t kind, uint64_t ns) {
    Entry& entry = entries_[kind % kEntries];
    if (entry.kind != kind || entry.mean_ns == 0) {
      entry = {kind, ns};
      return;
    }
    // A quarter of the new one: follows a change of input within some launches, not each of them.
    entry.mean_ns = entry.mean_ns - entry.mean_ns / 4 + ns / 4;
  }

 private:
  static constexpr uint32_t kEntries = 256;
  struct Entry {
    uint64_t kind = 0;
    uint64_t mean_ns = 0;
  };
  uint64_t unknown_ns_;
  std::array<Entry, kEntries> entries_{};
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_ESTIMATE_H_
