// What turns promise, in model time, from seeds: with bells that are heard late, work queued ahead,
// and workers that lie. SPDX-License-Identifier: Apache-2.0
#include "scheduler/turns.h"

#include <gtest/gtest.h>

#include <cmath>

#include "scheduler/fair_share.h"
#include "scheduler/round_robin.h"
#include "tests/simulation/turn_sim.h"

namespace vgpu::simulation {
namespace {

using scheduler::FairLimits;
using scheduler::FairShare;
using scheduler::PriorityClass;
using scheduler::Share;
using scheduler::TurnLimits;

std::function<uint64_t(Random*)> exactly(uint64_t ns) {
  return [ns](Random*) { return ns; };
}
std::function<uint64_t(Random*)> between(uint64_t low, uint64_t high) {
  return [low, high](Random* random) {
    return static_cast<uint64_t>(std::exp(std::uniform_real_distribution<>(
        std::log(static_cast<double>(low)), std::log(static_cast<double>(high)))(*random)));
  };
}

TurnSim fair(std::vector<Guest> guests, uint64_t seed, uint32_t minimum_permille = 50) {
  FairLimits limits;
  limits.minimum_permille = minimum_permille;
  limits.urgent = 1;
  limits.patience_ns = 500 * kMicrosecond;
  limits.hold_ns_max = 100 * kMillisecond;
  return TurnSim(std::make_unique<FairShare>(limits), TurnLimits{}, std::move(guests), seed);
}

double share_of(const TurnSim& sim, uint32_t guest, uint64_t from, uint64_t to) {
  return static_cast<double>(sim.service(guest, from, to)) / static_cast<double>(to - from);
}

void expect_shares(const std::vector<uint32_t>& weights, uint64_t seed) {
  Random random(seed);
  std::vector<Guest> guests(weights.size());
  for (Guest& guest : guests) {
    const uint64_t typical = between(20 * kMicrosecond, 20 * kMillisecond)(&random);
    guest.length = between(typical / 2, typical * 2);
  }
  TurnSim sim = fair(guests, seed);
  double sum = 0;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    sim.set_share(i, {weights[i]});
    sum += weights[i];
  }
  sim.run(20 * kSecond);
  for (uint32_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(share_of(sim, i, 0, sim.now()) / (weights[i] / sum), 1.0, 0.02)
        << "guest " << i << " seed " << seed;
  }
  EXPECT_LT(sim.idle_while_waiting(), sim.now() / 100) << "seed " << seed;
}

TEST(TurnsSim, SharesOfTwentySeconds) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    expect_shares({300, 100}, seed);
    expect_shares({700, 200, 100}, seed);
  }
}

TEST(TurnsSim, ManyGuestsShareAlike) {
  for (const uint32_t count : {8u, 32u}) {
    Random random(count);
    std::vector<Guest> guests(count);
    for (Guest& guest : guests) {
      const uint64_t typical = between(20 * kMicrosecond, 20 * kMillisecond)(&random);
      guest.length = between(typical / 2, typical * 2);
    }
    TurnSim sim = fair(guests, count);
    sim.run(10 * kSecond);
    std::vector<double> shares;
    for (uint32_t i = 0; i < count; ++i) shares.push_back(share_of(sim, i, 0, sim.now()));
    EXPECT_GE(jain(shares), 0.99) << count;
    EXPECT_LT(sim.idle_while_waiting(), sim.now() / 100) << count;
  }
}

TEST(TurnsSim, WhoIsAloneHasEverythingWithoutTurns) {
  std::vector<Guest> guests(1, Guest{exactly(100 * kMicrosecond)});
  TurnSim alone = fair(guests, 2);
  alone.run(kSecond);
  EXPECT_EQ(alone.turns().allowance(1), scheduler::kOpen);
  EXPECT_GT(share_of(alone, 0, 0, kSecond), 0.999);
}

TEST(TurnsSim, ACapHoldsInEverySecond) {
  for (const bool alone : {false, true}) {
    std::vector<Guest> guests(alone ? 1 : 2);
    for (Guest& guest : guests) guest.length = between(100 * kMicrosecond, 5 * kMillisecond);
    TurnSim sim = fair(guests, 7);
    sim.set_share(0, {100, PriorityClass::kNormal, 300});
    sim.run(10 * kSecond);
    for (uint64_t second = 1; second < 10; ++second) {
      EXPECT_NEAR(share_of(sim, 0, second * kSecond, (second + 1) * kSecond), 0.30, 0.03)
          << "second " << second << (alone ? " alone" : "");
    }
    if (!alone) {
      EXPECT_LT(sim.idle_while_waiting(), sim.now() / 100);
    }
  }
}

TEST(TurnsSim, ALatencyGuestWaitsForTheWindowAndNoLonger) {
  const uint64_t bulk = 10 * kMillisecond;
  for (const uint32_t others : {1u, 4u, 16u}) {
    std::vector<Guest> guests(1 + others, Guest{exactly(bulk)});
    guests[0] = {exactly(kMillisecond), 20 * kMillisecond};
    TurnSim sim = fair(guests, others, 0);
    sim.set_share(0, {100, PriorityClass::kLatency});
    sim.run(10 * kSecond);
    std::vector<uint64_t> times = sim.times(0);
    std::sort(times.begin(), times.end());
    const double p99 = static_cast<double>(times[times.size() * 99 / 100]) / kMillisecond;
    EXPECT_LE(p99, 1.0 + 2 * static_cast<double>(bulk) / kMillisecond + 1) << others;
  }
}

// Guests that have had a device to themselves, each in its time, and then all want it at once: no
// more of them are let on it together than later.
TEST(TurnsSim, ACrowdAfterQuietTimesGetsTurns) {
  constexpr uint32_t kOthers = 16;
  bool together = false;
  std::vector<Guest> guests(1 + kOthers);
  guests[0] = {exactly(kMillisecond), 20 * kMillisecond};
  for (uint32_t i = 1; i <= kOthers; ++i) {
    guests[i].length = [&together](Random*) {
      return together ? 10 * kMillisecond : 20 * kMicrosecond;
    };
    guests[i].on = 20 * kMillisecond;
    guests[i].off = 20 * kMillisecond * (kOthers - 1);
    guests[i].phase = 20 * kMillisecond * (i - 1);
    guests[i].synchronous = true;
    guests[i].again = 2 * kMillisecond;
  }
  TurnSim sim = fair(guests, 5);
  sim.set_share(0, {100, PriorityClass::kLatency});
  sim.run(kSecond);
  const size_t before = sim.times(0).size();
  together = true;
  for (uint32_t i = 1; i <= kOthers; ++i) sim.wake(i);
  sim.run(2 * kSecond);
  const std::vector<uint64_t>& times = sim.times(0);
  EXPECT_LE(*std::max_element(times.begin() + static_cast<ptrdiff_t>(before), times.end()),
            5 * 10 * kMillisecond);
}

// A class above has what it asks for; its pauses are not lost, and the class below keeps 5 %.
TEST(TurnsSim, AClassGoesFirst) {
  for (const bool pauses : {false, true}) {
    std::vector<Guest> guests(2, Guest{exactly(kMillisecond / 2)});
    if (pauses) guests[0].period = 700 * kMicrosecond;
    TurnSim sim = fair(guests, 6);
    sim.set_share(0, {100, PriorityClass::kLatency});
    sim.set_share(1, {100, PriorityClass::kSpot});
    sim.run(4 * kSecond);
    const double first = share_of(sim, 0, 0, sim.now()), second = share_of(sim, 1, 0, sim.now());
    EXPECT_GT(first, pauses ? 0.69 : 0.92);
    EXPECT_GT(second, pauses ? 0.25 : 0.03);
    EXPECT_GT(first + second, 0.98);
  }
}

TEST(TurnsSim, AWeightCountsAtOnce) {
  TurnSim sim = fair(std::vector<Guest>(2, Guest{exactly(kMillisecond / 2)}), 6);
  sim.run(kSecond);
  sim.set_share(0, {900});
  sim.run(2 * kSecond);
  const uint64_t from = kSecond + 6 * kMillisecond;
  EXPECT_NEAR(share_of(sim, 0, from, from + 200 * kMillisecond), 0.9, 0.04);
}

TEST(TurnsSim, NobodyHoards) {
  std::vector<Guest> guests(2, Guest{exactly(kMillisecond)});
  guests[1].on = 2 * kSecond;
  guests[1].off = 3 * kSecond;
  TurnSim sim = fair(guests, 5);
  sim.run(11 * kSecond);
  for (const uint64_t back : {5 * kSecond, 10 * kSecond})
    EXPECT_NEAR(share_of(sim, 0, back, back + 200 * kMillisecond), 0.5, 0.06);
  EXPECT_GT(share_of(sim, 0, 2100 * kMillisecond, 5 * kSecond), 0.99) << "alone meanwhile";
}

// Who is suspended in the middle of a turn keeps the others for the time of one long turn.
TEST(TurnsSim, WhoIsSilentIsSkipped) {
  TurnSim sim = fair(std::vector<Guest>(3, Guest{exactly(kMillisecond)}), 8);
  sim.run(kSecond);
  sim.set_conduct(0, Conduct::kSilent);
  sim.run(3 * kSecond);
  for (const uint32_t other : {1u, 2u})
    EXPECT_NEAR(share_of(sim, other, 1100 * kMillisecond, 3 * kSecond), 0.5, 0.03);
}

// A worker that takes no notice of turns is charged for what it uses, so it gets none; how much it
// takes beside them is up to the device, which serves alike whoever has work.
TEST(TurnsSim, WhoIsGreedyGetsNoMoreThanTheDeviceGivesIt) {
  TurnSim sim = fair(std::vector<Guest>(3, Guest{exactly(kMillisecond)}), 9);
  sim.set_conduct(0, Conduct::kGreedy);
  sim.run(4 * kSecond);
  for (const uint32_t other : {1u, 2u}) EXPECT_GT(share_of(sim, other, 0, sim.now()), 0.2);
}

// Nobody believes that a turn has cost nothing: what it kept from others is charged. (That alone
// makes no fair share; vgpud looks at the process's CPU time as well.)
TEST(TurnsSim, WhoSaysNothingOfItsUseStarvesNobody) {
  TurnSim sim = fair(std::vector<Guest>(3, Guest{exactly(kMillisecond)}), 9);
  sim.set_conduct(0, Conduct::kUsesNone);
  sim.run(4 * kSecond);
  for (const uint32_t other : {1u, 2u}) EXPECT_GT(share_of(sim, other, 0, sim.now()), 0.05);
}

// A guest that looks at each result before it asks for more, `again` after its end.
Guest synchronous(uint64_t length, uint64_t again) {
  Guest guest{exactly(length)};
  guest.synchronous = true;
  guest.again = again;
  return guest;
}

TurnSim synchronous_guests(uint32_t count, uint32_t weight, uint64_t length, uint64_t again) {
  TurnSim sim = fair(std::vector<Guest>(count, synchronous(length, again)), count);
  sim.set_share(0, {weight * 100});
  sim.run(2 * kSecond);
  return sim;
}

// Weights among guests that are never waiting when a turn ends.
TEST(TurnsSim, SynchronousGuestsShareByWeight) {
  for (const uint32_t count : {2u, 8u}) {
    for (const uint32_t weight : {3u, 9u}) {
      for (const uint64_t length : {500, 2000, 5000}) {
        for (const uint64_t again : {20, 200}) {
          const TurnSim sim =
              synchronous_guests(count, weight, length * kMicrosecond, again * kMicrosecond);
          const double first = share_of(sim, 0, 0, sim.now());
          for (uint32_t i = 1; i < count; ++i) {
            EXPECT_NEAR(first / share_of(sim, i, 0, sim.now()), weight, 0.06 * weight)
                << count << " guests, " << length << " us, again after " << again;
          }
          EXPECT_GT(first, again == 20 ? 0.93 * weight / (weight + count - 1) : 0.25);
        }
      }
    }
  }
}

// Guests that cannot fill the engine are not held back for each other's sake.
TEST(TurnsSim, SynchronousGuestsWithLittleWorkAllHaveIt) {
  for (const uint32_t count : {2u, 8u}) {
    const TurnSim sim = synchronous_guests(count, 9, 20 * kMicrosecond, 200 * kMicrosecond);
    for (uint32_t i = 0; i < count; ++i)
      EXPECT_GT(share_of(sim, i, 0, sim.now()), 0.85 / 11) << count << " guests";
  }
}

// Beside bulk work, a guest that asks now and then: it is not waited for, and a small kernel of it
// does not keep the engine.
TEST(TurnsSim, NobodyIsKeptWaitingForOneThatPauses) {
  for (const uint32_t weight : {1u, 9u}) {
    for (const uint64_t length : {200, 2000}) {
      for (const uint64_t again : {2000, 3500, 4900}) {
        TurnSim sim = fair({Guest{exactly(2 * kMillisecond)},
                            synchronous(length * kMicrosecond, again * kMicrosecond)},
                           3);
        sim.set_share(1, {weight * 100});
        sim.run(3 * kSecond);
        EXPECT_LT(sim.idle_while_waiting(), sim.now() / 100) << length << " us, " << again;
        EXPECT_GT(share_of(sim, 1, 0, sim.now()), length == 200 ? 0.02 : 0.18) << again;
      }
    }
  }
}

// A class above that cannot fill the engine leaves the rest to those below.
TEST(TurnsSim, AClassThatUsesLittleKeepsNobodyOut) {
  TurnSim sim = fair(
      {synchronous(20 * kMicrosecond, 200 * kMicrosecond), Guest{exactly(500 * kMicrosecond)}}, 4);
  sim.set_share(0, {100, PriorityClass::kLatency});
  sim.set_share(1, {100, PriorityClass::kSpot});
  sim.run(2 * kSecond);
  EXPECT_GT(share_of(sim, 0, 0, sim.now()), 0.02);
  EXPECT_GT(share_of(sim, 1, 0, sim.now()), 0.6);
}

// What two of the lowest class had while they were alone is not taken off their minimum.
TEST(TurnsSim, AMinimumIsNotSpentBeforeAnybodyComes) {
  std::vector<Guest> guests(3, Guest{exactly(kMillisecond / 2)});
  guests[2].on = 2 * kSecond;
  guests[2].off = 10 * kSecond;
  guests[2].phase = 10 * kSecond;
  TurnSim sim = fair(guests, 6);
  for (const uint32_t spot : {0u, 1u}) sim.set_share(spot, {100, PriorityClass::kSpot});
  sim.set_share(2, {100, PriorityClass::kLatency});
  sim.run(12 * kSecond);
  double spots = 0;
  for (const uint32_t spot : {0u, 1u}) spots += share_of(sim, spot, 10 * kSecond, sim.now());
  EXPECT_GE(spots, 0.04);
  EXPECT_LE(spots, 0.08);
}

// The baseline fails where it is known to.
TEST(TurnsSim, RoundRobinDoesNotShare) {
  TurnLimits limits;
  limits.one_piece = true;
  TurnSim sim(std::make_unique<scheduler::RoundRobin>(2), limits,
              {Guest{exactly(20 * kMillisecond)}, Guest{exactly(kMillisecond)}}, 9);
  sim.run(10 * kSecond);
  EXPECT_GT(share_of(sim, 0, 0, sim.now()), 0.8);
}

}  // namespace
}  // namespace vgpu::simulation
