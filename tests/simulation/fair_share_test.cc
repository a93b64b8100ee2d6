// What the fair share promises, in model time, from seeds; FIFO and round robin beside it.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fair_share.h"

#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/fifo.h"
#include "scheduler/round_robin.h"
#include "tests/simulation/device_sim.h"

namespace vgpu::simulation {
namespace {

using scheduler::Engine;
using scheduler::FairLimits;
using scheduler::FairShare;
using scheduler::PriorityClass;
using scheduler::Share;

std::function<uint64_t(Random*)> exactly(uint64_t ns) {
  return [ns](Random*) { return ns; };
}
// As many short ones as long ones, by magnitude.
std::function<uint64_t(Random*)> between(uint64_t low, uint64_t high) {
  return [low, high](Random* random) {
    const double from = std::log(static_cast<double>(low)),
                 to = std::log(static_cast<double>(high));
    return static_cast<uint64_t>(std::exp(std::uniform_real_distribution<>(from, to)(*random)));
  };
}

constexpr uint64_t kLongest = 50 * kMillisecond;

// Guests whose kernels take from 10 us to 50 ms, each about a length of its own.
std::vector<Guest> mixed(uint32_t count, Random* random) {
  std::vector<Guest> guests(count);
  for (Guest& guest : guests) {
    const uint64_t typical = between(10 * kMicrosecond, kLongest)(random);
    guest.length =
        between(std::max(10 * kMicrosecond, typical / 2), std::min(kLongest, typical * 2));
  }
  return guests;
}

double jain_of(const DeviceSim& sim, uint32_t count, const std::vector<uint32_t>& weights,
               uint64_t from, uint64_t to) {
  std::vector<double> shares;
  for (uint32_t i = 0; i < count; ++i) {
    shares.push_back(static_cast<double>(sim.service(i, from, to)) / weights[i]);
  }
  return jain(shares);
}

struct Case {
  uint32_t guests;
  uint64_t seed;
  bool weighted;
};
class Mixed : public testing::TestWithParam<Case> {};

TEST_P(Mixed, ServiceFollowsWeights) {
  const auto [count, seed, weighted] = GetParam();
  Random random(seed);
  FairShare policy;
  std::vector<uint32_t> weights;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    weights.push_back(weighted ? 100u << random() % 3 : 100u);
    policy.set_share(i, {weights[i]}, 0);
    sum += weights[i];
  }
  DeviceSim sim(&policy, mixed(count, &random), seed);
  // The window of the measure: time for ten longest kernels of the guest with the least weight.
  const uint64_t window = 10 * kLongest * sum / 100;
  sim.run(2 * window);
  EXPECT_GE(jain_of(sim, count, weights, window, 2 * window), 0.999);
  EXPECT_EQ(sim.idle_while_waiting(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Mixed,
                         testing::Values(Case{2, 1, false}, Case{2, 2, true}, Case{3, 3, false},
                                         Case{4, 4, true}, Case{8, 5, false}, Case{8, 6, true},
                                         Case{16, 7, true}, Case{32, 8, false},
                                         Case{64, 9, false}));

// The difference of service / weight at every end of a piece, against the bound of start-time fair
// queueing with a window.
TEST(FairShareSim, TheDifferenceStaysWithinTheBound) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const std::vector<uint32_t> weights = {100, 200, 300, 700};
    const std::vector<uint64_t> lengths = {20 * kMillisecond, kMillisecond / 2, 2 * kMillisecond,
                                           7 * kMillisecond};
    const FairLimits limits;
    FairShare policy(limits);
    std::vector<Guest> guests(4);
    for (uint32_t i = 0; i < 4; ++i) {
      policy.set_share(i, {weights[i]}, 0);
      guests[i].length = between(lengths[i] / 2, lengths[i]);
    }
    DeviceSim sim(&policy, guests, seed);
    sim.run(20 * kSecond);
    std::vector<double> had(4);
    double worst = 0;  // as a fraction of the bound
    for (const Served& piece : sim.served()) {
      had[piece.guest] += static_cast<double>(piece.ended - piece.started);
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t j = piece.guest;
        const double apart = std::abs(had[i] / weights[i] - had[j] / weights[j]);
        const double bound = (1 + limits.window) * (static_cast<double>(lengths[i]) / weights[i] +
                                                    static_cast<double>(lengths[j]) / weights[j]);
        if (i != j) worst = std::max(worst, apart / bound);
      }
    }
    EXPECT_LE(worst, 1.0) << "seed " << seed;
    EXPECT_GT(worst, 0.05) << "the measure sees nothing";
  }
}

void expect_shares(const std::vector<uint32_t>& weights, uint64_t seed) {
  FairShare policy;
  Random random(seed);
  const auto count = static_cast<uint32_t>(weights.size());
  for (uint32_t i = 0; i < count; ++i) policy.set_share(i, {weights[i]}, 0);
  DeviceSim sim(&policy, mixed(count, &random), seed);
  sim.run(20 * kSecond);
  double all = 0, weight_sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    all += static_cast<double>(sim.service(i, 0, sim.now()));
    weight_sum += weights[i];
  }
  for (uint32_t i = 0; i < count; ++i) {
    const double share = static_cast<double>(sim.service(i, 0, sim.now())) / all;
    EXPECT_NEAR(share / (weights[i] / weight_sum), 1.0, 0.02) << "guest " << i << " seed " << seed;
  }
}

TEST(FairShareSim, SharesOfTwentySeconds) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    expect_shares({300, 100}, seed);
    expect_shares({700, 200, 100}, seed);
  }
}

TEST(FairShareSim, ACapHoldsInEverySecond) {
  for (const bool alone : {false, true}) {
    FairShare policy;
    policy.set_share(0, {100, PriorityClass::kNormal, 300}, 0);
    std::vector<Guest> guests(alone ? 1 : 2);
    for (Guest& guest : guests) guest.length = between(100 * kMicrosecond, 10 * kMillisecond);
    DeviceSim sim(&policy, guests, 7);
    sim.run(20 * kSecond);
    for (uint64_t second = 1; second < 20; ++second) {
      const uint64_t had = sim.service(0, second * kSecond, (second + 1) * kSecond);
      EXPECT_NEAR(static_cast<double>(had) / kSecond, 0.30, 0.03) << "second " << second;
    }
    if (!alone) {
      EXPECT_LT(sim.idle_while_waiting(), sim.now() / 100);
    }
  }
}

double p99_ms(const DeviceSim& sim, uint32_t guest) {
  std::vector<uint64_t> times;
  for (const Served& piece : sim.served()) {
    if (piece.guest == guest) times.push_back(piece.ended - piece.asked);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() * 99 / 100]) / kMillisecond;
}

TEST(FairShareSim, ALatencyGuestWaitsForTheWindowAndNoLonger) {
  const uint64_t bulk = 20 * kMillisecond;
  for (const uint32_t others : {0u, 1u, 4u, 16u}) {
    FairLimits limits;
    limits.minimum_permille = 0;  // what a minimum costs is another test
    FairShare policy(limits);
    policy.set_share(0, {100, PriorityClass::kLatency}, 0);
    std::vector<Guest> guests(1 + others, Guest{exactly(bulk)});
    guests[0] = {exactly(kMillisecond), 20 * kMillisecond};
    DeviceSim sim(&policy, guests, others + 1);
    sim.run(20 * kSecond);
    const double aim = 1.0 + static_cast<double>(limits.window * bulk) / kMillisecond;
    EXPECT_LE(p99_ms(sim, 0), others == 0 ? 1.01 : aim) << others << " bulk guests";
  }
}

TEST(FairShareSim, LowerClassesKeepTheirMinimum) {
  FairShare policy;
  policy.set_share(0, {100, PriorityClass::kLatency}, 0);
  policy.set_share(1, {100, PriorityClass::kNormal}, 0);
  policy.set_share(2, {100, PriorityClass::kSpot}, 0);
  DeviceSim sim(&policy, std::vector<Guest>(3, Guest{exactly(kMillisecond)}), 3);
  sim.run(10 * kSecond);
  for (const uint32_t lower : {1u, 2u}) {
    const double share = static_cast<double>(sim.service(lower, 0, sim.now())) / 10 / kSecond;
    EXPECT_NEAR(share, 0.05, 0.01) << lower;
  }
}

// Who was away, or was stopped by a cap, comes back without credit: the others do not stand still.
TEST(FairShareSim, NobodyHoards) {
  FairShare policy;
  std::vector<Guest> guests(2, Guest{exactly(kMillisecond)});
  guests[1].on = 2 * kSecond;
  guests[1].off = 3 * kSecond;
  DeviceSim sim(&policy, guests, 5);
  sim.run(15 * kSecond);
  for (const uint64_t back : {5 * kSecond, 10 * kSecond}) {
    const uint64_t had = sim.service(0, back, back + 100 * kMillisecond);
    EXPECT_NEAR(static_cast<double>(had) / kMillisecond, 50, 4);
  }
  EXPECT_EQ(sim.idle_while_waiting(), 0u) << "and while it is away the other has everything";
}

TEST(FairShareSim, AWeightCountsAtOnce) {
  FairShare policy;
  DeviceSim sim(&policy, std::vector<Guest>(2, Guest{exactly(kMillisecond)}), 6);
  sim.run(kSecond);
  policy.set_share(0, {900}, sim.now());
  sim.run(2 * kSecond);
  // From 5 ms and a running piece later on.
  const uint64_t from = kSecond + 6 * kMillisecond;
  const uint64_t had = sim.service(0, from, from + 100 * kMillisecond);
  EXPECT_NEAR(static_cast<double>(had) / kMillisecond, 90, 3);
}

TEST(FairShareSim, EnginesHaveClocksOfTheirOwn) {
  FairShare policy;
  std::vector<Guest> guests(3, Guest{exactly(kMillisecond)});
  guests[2].engine = Engine::kToDevice;
  DeviceSim sim(&policy, guests, 8);
  sim.run(4 * kSecond);
  EXPECT_NEAR(static_cast<double>(sim.service(0, 0, sim.now())) / kSecond, 2, 0.01);
  EXPECT_NEAR(static_cast<double>(sim.service(2, 0, sim.now())) / kSecond, 4, 0.01);
}

// The baselines fail where they are known to: otherwise the measures above would show nothing.
TEST(FairShareSim, BaselinesDoNotShare) {
  std::vector<Guest> guests = {Guest{exactly(20 * kMillisecond)}, Guest{exactly(kMillisecond)}};
  scheduler::Fifo fifo(2);
  scheduler::RoundRobin round_robin(2);
  for (scheduler::Policy* policy :
       {static_cast<scheduler::Policy*>(&fifo), static_cast<scheduler::Policy*>(&round_robin)}) {
    DeviceSim sim(policy, guests, 9);
    sim.run(20 * kSecond);
    EXPECT_LT(jain_of(sim, 2, {1, 1}, 0, sim.now()), 0.7);
    EXPECT_EQ(sim.idle_while_waiting(), 0u);
  }
}

}  // namespace
}  // namespace vgpu::simulation
