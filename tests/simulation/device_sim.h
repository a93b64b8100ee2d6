// A device of model time that guests share under a policy: what a policy does, from a seed.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_SIMULATION_DEVICE_SIM_H_
#define VGPU_TESTS_SIMULATION_DEVICE_SIM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "scheduler/estimate.h"
#include "scheduler/policy.h"

namespace vgpu::simulation {

inline constexpr uint64_t kMicrosecond = 1'000;
inline constexpr uint64_t kMillisecond = 1'000'000;
inline constexpr uint64_t kSecond = 1'000'000'000;

using Random = std::mt19937_64;

// What a guest asks for. Lengths are device time of one piece, in nanoseconds; pieces cannot be
// interrupted.
struct Guest {
  std::function<uint64_t(Random*)> length;
  // 0: always has work. Else pieces come this far apart, one each, whatever became of those before.
  uint64_t period = 0;
  // With `off` != 0 the guest asks during `on`, then is silent during `off`, and so on.
  uint64_t on = 0, off = 0;
  scheduler::Engine engine = scheduler::Engine::kCompute;
  // --- with TurnSim only
  uint64_t phase = 0;  // of on and off: so much later
  // One piece at a time, each so long after the end of the one before.
  bool synchronous = false;
  uint64_t again = 0;
};

// One admitted piece that is over.
struct Served {
  uint32_t guest;
  uint64_t asked, started, ended;  // model time; started: on the engine
};

// Each engine carries out what was admitted one piece after the other, in order of admission: what
// a window in flight means for those behind it. The estimate of a piece is the moving average of
// its guest's; the measured time is exact. Guests are offered in an order that the seed shuffles.
class DeviceSim {
 public:
  DeviceSim(scheduler::Policy* policy, std::vector<Guest> guests, uint64_t seed);

  // On to model time `until`; may be called again, with the policy's settings changed between.
  void run(uint64_t until);

  uint64_t now() const { return now_; }
  const std::vector<Served>& served() const { return served_; }
  // Device time that a guest had in [from, to), what is on the engine at the borders cut.
  uint64_t service(uint32_t guest, uint64_t from, uint64_t to) const;
  // Time during which an engine did nothing although a piece waited for it.
  uint64_t idle_while_waiting() const { return idle_; }

 private:
  struct State {
    Guest guest;
    scheduler::Estimates estimates{kMillisecond};
    std::deque<std::pair<uint64_t, uint64_t>> queue;  // asked, length
    uint64_t next_arrival = 0;
    uint64_t sequence = 0;
    bool withdrawn = true;
  };
  struct Piece {
    scheduler::Work work;
    uint64_t asked, length;
  };
  struct Running {
    std::deque<Piece> pieces;  // the first one is on the engine
    uint64_t ends = 0;
  };

  bool silent(const State& state) const;
  void arrive(State* state);
  void offer();
  bool offer_one(uint32_t index);
  void finish();
  uint64_t next_event() const;
  uint64_t next_arrival(const State& state) const;

  scheduler::Policy* policy_;
  Random random_;
  std::vector<State> guests_;
  std::vector<Running> engines_{scheduler::kEngines};
  std::vector<Served> served_;
  uint64_t now_ = 0;
  uint64_t idle_ = 0;
};

// (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything.
double jain(const std::vector<double>& values);

}  // namespace vgpu::simulation

#endif  // VGPU_TESTS_SIMULATION_DEVICE_SIM_H_
