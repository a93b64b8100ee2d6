// First in, first out: work starts in the order it is offered, with a bound on what is in flight.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_FIFO_H_
#define VGPU_SCHEDULER_FIFO_H_

#include <array>
#include <deque>

#include "scheduler/policy.h"

namespace vgpu::scheduler {

// Keeps at most `in_flight_max` pieces of work in flight on each engine (0: no bound). A client's
// work that was refused keeps its turn: nothing passes it on its engine until it has been admitted
// or withdrawn.
class Fifo final : public Policy {
 public:
  explicit Fifo(uint64_t in_flight_max = 0) : in_flight_max_(in_flight_max) {}

  bool admit(const Work& work, uint64_t now) override;
  void finish(const Work& work, uint64_t measured, uint64_t now) override;
  void withdraw(uint64_t client, uint64_t now) override;
  uint64_t retry_at(uint64_t) const override { return kNever; }

  uint64_t in_flight(Engine engine = Engine::kCompute) const { return of(engine).in_flight; }
  uint64_t cost_in_flight(Engine engine = Engine::kCompute) const {
    return of(engine).cost_in_flight;
  }

 private:
  struct Line {
    uint64_t in_flight = 0;
    uint64_t cost_in_flight = 0;
    std::deque<Work> refused;  // in the order of their first offer
  };
  const Line& of(Engine engine) const { return lines_[static_cast<uint32_t>(engine)]; }
  Line& of(Engine engine) { return lines_[static_cast<uint32_t>(engine)]; }

  uint64_t in_flight_max_;
  std::array<Line, kEngines> lines_;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_FIFO_H_
