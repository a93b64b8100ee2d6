// Which part of the time each guest used: from figures that were read one after the other.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NVML_WINDOW_H_
#define VGPU_NVML_WINDOW_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "protocol/session/figures.h"

namespace vgpu::nvml {

inline constexpr uint64_t kWindowNs = 1'000'000'000;  // as long as NVML's own samples at most
inline constexpr size_t kSamplesMax = 64;

// Of one guest, from 0 to 1, on each of its devices. The time of a guest with several devices is
// not known for each: all get the same part of it.
struct TimeShare {
  double compute = 0;
  double copies = 0;
};

// Keeps what was read within kWindowNs, and the last before it. Not thread-safe.
class Window {
 public:
  void add(const protocol::FiguresReply& figures);
  // From the oldest to the newest sample; 0 with less than two.
  uint64_t span_ns() const;
  // For each guest of the newest sample, in its order. All 0 without a span.
  std::vector<TimeShare> shares() const;

 private:
  struct Guest {
    uint64_t session = 0;
    uint64_t compute_ns = 0, copies_ns = 0;
    size_t devices = 1;
  };
  struct Sample {
    uint64_t now_ns = 0;
    std::vector<Guest> guests;
  };
  std::deque<Sample> samples_;
};

}  // namespace vgpu::nvml

#endif  // VGPU_NVML_WINDOW_H_
