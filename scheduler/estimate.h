// What a piece of work will cost, from what its like have cost before.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_ESTIMATE_H_
#define VGPU_SCHEDULER_ESTIMATE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace vgpu::scheduler {

// Moving averages of device time by kind of work (a kernel's name hashed with its launch shape,
// say), in a table of fixed size: kinds that collide take each other's place, which costs accuracy
// until the measured time corrects the charge, nothing else. Threads may use it at once: the same
// holds for what they lose of each other's.
class Estimates {
 public:
  static constexpr uint32_t kEntries = 1024;

  explicit Estimates(uint64_t unknown_ns) : unknown_ns_(unknown_ns), typical_ns_(unknown_ns) {}

  uint64_t estimate(uint64_t kind) const { return estimate(kind, unknown_ns_); }
  // `unknown_ns`: when nothing of this kind has been measured.
  uint64_t estimate(uint64_t kind, uint64_t unknown_ns) const {
    const Entry& entry = entries_[place(kind)];
    const uint64_t mean = load(entry.mean_ns);
    return load(entry.kind) == kind && mean != 0 ? mean : unknown_ns;
  }
  // About what the last pieces of any kind took.
  uint64_t typical() const { return load(typical_ns_); }
  void measured(uint64_t kind, uint64_t ns) {
    store(&typical_ns_, typical() - typical() / 8 + ns / 8);
    Entry& entry = entries_[place(kind)];
    const uint64_t mean = load(entry.mean_ns);
    if (load(entry.kind) != kind || mean == 0) {
      store(&entry.kind, kind);
      store(&entry.mean_ns, ns);
      return;
    }
    // A quarter of the new one: follows a change of input within some launches, not each of them.
    // But what is far longer is believed at once: too much of it would be let through.
    store(&entry.mean_ns, ns > 4 * mean ? ns : mean - mean / 4 + ns / 4);
  }

 private:
  struct Entry {
    uint64_t kind = 0;
    uint64_t mean_ns = 0;
  };
  static uint32_t place(uint64_t kind) { return static_cast<uint32_t>(kind % kEntries); }
  // relaxed: figures, each good by itself.
  static uint64_t load(const uint64_t& word) {
    return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_relaxed);
  }
  static void store(uint64_t* word, uint64_t value) {
    std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  }

  uint64_t unknown_ns_;
  uint64_t typical_ns_;
  std::array<Entry, kEntries> entries_{};
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_ESTIMATE_H_
