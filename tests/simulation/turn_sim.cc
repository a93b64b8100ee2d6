// Step by step.
// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/turn_sim.h"

#include <algorithm>

namespace vgpu::simulation {

using scheduler::kNever;

// Ids of clients: 0 is nobody's.
static uint64_t client(uint32_t guest) { return guest + 1; }

TurnSim::TurnSim(std::unique_ptr<scheduler::Policy> policy, const scheduler::TurnLimits& limits,
                 std::vector<Guest> guests, uint64_t seed)
    : turns_(std::move(policy), scheduler::Engine::kCompute, limits), random_(seed) {
  for (Guest& guest : guests) {
    State& state = guests_.emplace_back();
    state.guest = std::move(guest);
    if (state.guest.period != 0) state.next_arrival = random_() % state.guest.period;
    turns_.add(client(static_cast<uint32_t>(guests_.size() - 1)), {}, {}, 0);
  }
}

void TurnSim::set_share(uint32_t guest, const scheduler::Share& share) {
  guests_[guest].capped = share.cap_permille < scheduler::kPermille;
  turns_.set_share(client(guest), share, now_);
  ring();
}

void TurnSim::arrive(State* state) {
  const Guest& guest = state->guest;
  const bool off = guest.off != 0 &&
                   (now_ + guest.on + guest.off - guest.phase) % (guest.on + guest.off) >= guest.on;
  if (off) {
    state->waiting.clear();
    return;
  }
  const auto add = [&](uint64_t asked) {
    const uint64_t length = std::max(guest.length(&random_), kStep);
    state->waiting.push_back({asked, length, length, 0});
  };
  if (guest.synchronous) {
    if (state->waiting.empty() && state->running.empty() && now_ >= state->next_arrival) add(now_);
    return;
  }
  if (guest.period == 0) {
    while (state->waiting.size() < 4) add(now_);
    return;
  }
  for (; state->next_arrival <= now_; state->next_arrival += guest.period) add(state->next_arrival);
}

void TurnSim::admit(uint32_t index) {
  State& state = guests_[index];
  scheduler::TurnReport& report = state.report;
  report.wanted = 0;
  while (!state.waiting.empty()) {
    Piece piece = state.waiting.front();
    piece.cost = state.estimates.estimate(index);
    const bool greedy = state.conduct == Conduct::kGreedy;
    if (!greedy && report.admitted >= turns_.allowance(client(index))) {
      report.wanted = piece.cost;
      return ring();
    }
    const uint64_t in_flight = report.admitted - report.completed;
    if (in_flight + piece.cost > std::max(kAhead, 2 * piece.cost)) return;
    report.admitted += piece.cost;
    state.running.push_back(piece);
    state.waiting.pop_front();
  }
}

void TurnSim::finish(uint32_t index) {
  State& state = guests_[index];
  const Piece piece = state.running.front();
  state.running.pop_front();
  state.estimates.measured(index, piece.length);
  state.report.completed += piece.cost;
  state.times.push_back(now_ + kStep - piece.asked);
  if (state.guest.synchronous) state.next_arrival = now_ + kStep + state.guest.again;
  if (state.report.completed >= turns_.turn_end(client(index))) ring();
}

void TurnSim::serve() {
  const auto busy = [](const State& state) {
    return !state.running.empty() && state.conduct != Conduct::kSilent;
  };
  const auto count = static_cast<uint32_t>(guests_.size());
  if (now_ >= slice_ends_ || !busy(guests_[current_])) {
    for (uint32_t i = 1; i <= count; ++i) {
      const uint32_t next = (current_ + i) % count;
      if (!busy(guests_[next])) continue;
      current_ = next;
      slice_ends_ = now_ + kSlice;
      break;
    }
  }
  State& state = guests_[current_];
  if (!busy(state)) {
    idle_ += kStep * std::any_of(guests_.begin(), guests_.end(), [](const State& each) {
               return !each.capped && !each.waiting.empty() && each.conduct == Conduct::kHonest;
             });
    return;
  }
  const size_t bucket = now_ / kMillisecond;
  if (state.had.size() <= bucket) state.had.resize(bucket + 1);
  state.had[bucket] += kStep;
  if (state.conduct != Conduct::kUsesNone) state.report.measured += kStep;
  Piece& piece = state.running.front();
  piece.left -= std::min(piece.left, kStep);
  if (piece.left == 0) finish(current_);
}

void TurnSim::round() {
  for (uint32_t i = 0; i < guests_.size(); ++i) turns_.report(client(i), guests_[i].report, now_);
  turns_.round(now_);
  rung_ = kNever;
  next_round_ = turns_.next_round(now_);
}

void TurnSim::run(uint64_t until) {
  for (; now_ < until; now_ += kStep) {
    for (uint32_t i = 0; i < guests_.size(); ++i) {
      arrive(&guests_[i]);
      admit(i);
    }
    if (now_ >= rung_ || now_ >= next_round_) round();
    serve();
  }
}

uint64_t TurnSim::service(uint32_t guest, uint64_t from, uint64_t to) const {
  const std::vector<uint64_t>& had = guests_[guest].had;
  uint64_t sum = 0;
  for (size_t i = from / kMillisecond; i < std::min<size_t>(to / kMillisecond, had.size()); ++i)
    sum += had[i];
  return sum;
}

}  // namespace vgpu::simulation
