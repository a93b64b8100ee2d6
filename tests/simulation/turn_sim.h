// Workers of model time that take turns on one engine, as real ones do: what becomes of a policy
// when decisions come late and work is queued ahead. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_SIMULATION_TURN_SIM_H_
#define VGPU_TESTS_SIMULATION_TURN_SIM_H_

#include <deque>
#include <memory>
#include <vector>

#include "scheduler/estimate.h"
#include "scheduler/turns.h"
#include "tests/simulation/device_sim.h"

namespace vgpu::simulation {

// How a worker that is not what it should be behaves.
enum class Conduct : uint8_t {
  kHonest,
  kSilent,    // it begins work and is then suspended: nothing of it ends any more
  kUsesNone,  // says that it has used no time at all
  kGreedy,    // takes no notice of turns
};

// The engine serves whoever has work in slices of real time, one after the other, each guest's
// pieces in their order: as the SMs of the software GPU do. The scheduler hears of a bell some time
// after it has rung.
class TurnSim {
 public:
  static constexpr uint64_t kStep = 20 * kMicrosecond;
  static constexpr uint64_t kBellDelay = 60 * kMicrosecond;
  static constexpr uint64_t kSlice = 2 * kMillisecond;
  static constexpr uint64_t kAhead = 4 * kMillisecond;  // with the device at once, or two pieces

  TurnSim(std::unique_ptr<scheduler::Policy> policy, const scheduler::TurnLimits& limits,
          std::vector<Guest> guests, uint64_t seed);

  void set_share(uint32_t guest, const scheduler::Share& share);
  void set_conduct(uint32_t guest, Conduct conduct) { guests_[guest].conduct = conduct; }
  // From now on it always asks.
  void wake(uint32_t guest) { guests_[guest].guest.off = guests_[guest].guest.again = 0; }
  void run(uint64_t until);

  uint64_t now() const { return now_; }
  // Device time that a guest has had in [from, to), to within a step.
  uint64_t service(uint32_t guest, uint64_t from, uint64_t to) const;
  // From asking to the end, of every piece that is over.
  const std::vector<uint64_t>& times(uint32_t guest) const { return guests_[guest].times; }
  // Steps in which the engine did nothing although a guest without a cap had work.
  uint64_t idle_while_waiting() const { return idle_; }
  const scheduler::Turns& turns() const { return turns_; }

 private:
  struct Piece {
    uint64_t asked, length, left, cost;
  };
  struct State {
    Guest guest;
    Conduct conduct = Conduct::kHonest;
    bool capped = false;
    scheduler::Estimates estimates{kMillisecond};
    scheduler::TurnReport report;
    std::deque<Piece> waiting, running;
    uint64_t next_arrival = 0;
    std::vector<uint64_t> times;
    std::vector<uint64_t> had;  // by millisecond
  };

  void arrive(State* state);
  void admit(uint32_t index);
  void serve();
  void finish(uint32_t index);
  void round();
  void ring() { rung_ = std::min(rung_, now_ + kBellDelay); }

  scheduler::Turns turns_;
  Random random_;
  std::vector<State> guests_;
  uint32_t current_ = 0;
  uint64_t slice_ends_ = 0;
  uint64_t rung_ = scheduler::kNever, next_round_ = scheduler::kNever;
  uint64_t now_ = 0, idle_ = 0;
};

}  // namespace vgpu::simulation

#endif  // VGPU_TESTS_SIMULATION_TURN_SIM_H_
