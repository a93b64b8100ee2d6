// First in, first out: work starts in the order it is offered, with a bound on what is in flight.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_FIFO_H_
#define VGPU_SCHEDULER_FIFO_H_

#include "scheduler/policy.h"

namespace vgpu::scheduler {

// Keeps at most `in_flight_max` pieces of work in flight (0: no bound). A client's work that was
// refused keeps its turn: nothing of another client passes it until it has been admitted.
class Fifo final : public Policy {
 public:
  explicit Fifo(uint64_t in_flight_max = 0) : in_flight_max_(in_flight_max) {}

  bool admit(const Work& work) override;
  void finish(const Work& work, uint64_t measured) override;

  uint64_t in_flight() const { return in_flight_; }
  uint64_t cost_in_flight() const { return cost_in_flight_; }

 private:
  uint64_t in_flight_max_;
  uint64_t in_flight_ = 0;
  uint64_t cost_in_flight_ = 0;
  bool turn_taken_ = false;  // somebody was refused and is next
  Work turn_;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_FIFO_H_
