// What this process sent and waited for; shown at exit when VGPU_STATS asks for it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_STATS_H_
#define VGPU_SHIM_STATS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "op.h"

namespace vgpu::shim {

// Counters: the channel's lock guards those of records, any thread adds to those of bytes. Reading
// at exit does not matter.
struct Stats {
  uint64_t records = 0, round_trips = 1, launches = 0;  // attaching is a round trip
  std::atomic<uint64_t> bytes_to_device{0}, bytes_from_device{0};
  static constexpr uint32_t kOps = 0x1700;
  std::array<uint32_t, kOps> trips_by_op{};

  void record(Op op, bool waits) {
    ++records;
    launches += op == Op::kLaunch ? 1 : 0;
    if (!waits) return;
    ++round_trips;
    if (const auto number = static_cast<uint32_t>(op); number < kOps) ++trips_by_op[number];
  }
  // relaxed: figures for people.
  void add(std::atomic<uint64_t> Stats::*counter, uint64_t bytes) {
    (this->*counter).fetch_add(bytes, std::memory_order_relaxed);
  }
  // One JSON object on one line. `ring_bytes`: what all records took of the ring.
  std::string to_json(uint64_t ring_bytes) const;
};

// Writes `stats` where VGPU_STATS says: "1" is stderr, anything else a file. Nothing when it is
// unset or "0".
void write_stats(const Stats& stats, uint64_t ring_bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_STATS_H_
