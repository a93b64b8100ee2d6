// The seam between commands and the scheduler: every piece of device work passes here.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_ADMISSION_H_
#define VGPU_SERVER_ADMISSION_H_

#include <cstdint>

#include "scheduler/fifo.h"

namespace vgpu::server {

// Estimated nanoseconds of device time; only their ratios matter to a policy.
inline constexpr uint64_t kLaunchCost = 5'000;
inline constexpr uint64_t copy_cost(uint64_t bytes) { return 1'000 + bytes / 10; }

// Asks the policy before work goes to the driver. With the FIFO policy without a bound every piece
// starts at once and nothing is in flight afterwards, so this costs a few additions. Not
// thread-safe: the consumer.
class Admission {
 public:
  void admit(uint64_t cost) {
    const scheduler::Work work{0, ++sequence_, cost};
    if (policy_.admit(work, 0)) policy_.finish(work, 0, 0);
    cost_total_ += cost;
  }
  uint64_t pieces() const { return sequence_; }
  uint64_t cost_total() const { return cost_total_; }

 private:
  scheduler::Fifo policy_;
  uint64_t sequence_ = 0;
  uint64_t cost_total_ = 0;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_ADMISSION_H_
