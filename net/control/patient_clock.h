// Time as it passes for a side that listens.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_PATIENT_CLOCK_H_
#define VGPU_NET_CONTROL_PATIENT_CLOCK_H_

#include <cstdint>

namespace vgpu::net {

// Goes on by at most kStepMsMax from one look to the next. Who was stopped, or got no processor,
// has not listened meanwhile: by this clock no peer was silent for that long, and what it has said
// is heard before it is judged. Not thread-safe.
class PatientClock {
 public:
  // To be looked at more often than this, also while nothing comes.
  static constexpr uint64_t kStepMsMax = 1250;

  explicit PatientClock(uint64_t now_ms) : looked_ms_(now_ms) {}

  // Each time that something may have been heard, with the time in milliseconds.
  void look(uint64_t now_ms) {
    const uint64_t step = now_ms - looked_ms_;
    looked_ms_ = now_ms;
    ms_ += step < kStepMsMax ? step : kStepMsMax;
  }
  uint64_t ms() const { return ms_; }

 private:
  uint64_t looked_ms_;
  uint64_t ms_ = 1;  // 0 is for "never"
};

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_PATIENT_CLOCK_H_
