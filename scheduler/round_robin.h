// Round robin: clients that wait take turns, one piece of work each. A baseline to measure against.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_ROUND_ROBIN_H_
#define VGPU_SCHEDULER_ROUND_ROBIN_H_

#include <array>
#include <deque>

#include "scheduler/policy.h"

namespace vgpu::scheduler {

// Keeps at most `in_flight_max` (at least 1) pieces in flight on each engine. Who was served goes
// behind all who wait; what a piece costs does not matter, which is what is wrong with it.
class RoundRobin final : public Policy {
 public:
  explicit RoundRobin(uint64_t in_flight_max) : in_flight_max_(in_flight_max) {}

  bool admit(const Work& work, uint64_t now) override;
  void finish(const Work& work, uint64_t measured, uint64_t now) override;
  void withdraw(uint64_t client, uint64_t now) override;
  uint64_t retry_at(uint64_t) const override { return kNever; }

 private:
  struct Ring {
    uint64_t in_flight = 0;
    std::deque<uint64_t> waiting;  // clients, the next one first
  };
  uint64_t in_flight_max_;
  std::array<Ring, kEngines> rings_;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_ROUND_ROBIN_H_
