// Events of the model: arrivals, offers, ends.
// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/device_sim.h"

#include <algorithm>
#include <numeric>

namespace vgpu::simulation {

using scheduler::kNever;
using scheduler::Work;

DeviceSim::DeviceSim(scheduler::Policy* policy, std::vector<Guest> guests, uint64_t seed)
    : policy_(policy), random_(seed) {
  for (Guest& guest : guests) {
    State& state = guests_.emplace_back();
    state.guest = std::move(guest);
    // Periodic guests do not all begin at once.
    if (state.guest.period != 0) state.next_arrival = random_() % state.guest.period;
  }
}

bool DeviceSim::silent(const State& state) const {
  const Guest& guest = state.guest;
  return guest.off != 0 && now_ % (guest.on + guest.off) >= guest.on;
}

void DeviceSim::arrive(State* state) {
  if (state->guest.period != 0) {
    while (state->next_arrival <= now_) {
      state->queue.emplace_back(state->next_arrival, state->guest.length(&random_));
      state->next_arrival += state->guest.period;
    }
  } else if (silent(*state)) {
    state->queue.clear();  // the rest of its burst is dropped
  } else if (state->queue.empty()) {
    state->queue.emplace_back(now_, state->guest.length(&random_));
  }
}

bool DeviceSim::offer_one(uint32_t index) {
  State& state = guests_[index];
  if (state.queue.empty()) {
    if (!state.withdrawn) policy_->withdraw(index, now_);
    state.withdrawn = true;
    return false;
  }
  state.withdrawn = false;
  const auto [asked, length] = state.queue.front();
  const Work work{index, state.sequence, state.estimates.estimate(1), state.guest.engine};
  if (!policy_->admit(work, now_)) return false;
  ++state.sequence;
  state.queue.pop_front();
  Running& engine = engines_[static_cast<uint32_t>(work.engine)];
  if (engine.pieces.empty()) engine.ends = now_ + length;
  engine.pieces.push_back({work, asked, length});
  return true;
}

void DeviceSim::offer() {
  std::vector<uint32_t> order(guests_.size());
  std::iota(order.begin(), order.end(), 0u);
  // Until a whole round of offers is refused: an admission changes who is next.
  for (bool again = true; again;) {
    std::shuffle(order.begin(), order.end(), random_);
    again = false;
    for (const uint32_t index : order) {
      if (offer_one(index)) again = true;
      arrive(&guests_[index]);
    }
  }
}

void DeviceSim::finish() {
  for (Running& engine : engines_) {
    while (!engine.pieces.empty() && engine.ends <= now_) {
      const Piece piece = engine.pieces.front();
      engine.pieces.pop_front();
      const auto guest = static_cast<uint32_t>(piece.work.client);
      served_.push_back({guest, piece.asked, engine.ends - piece.length, engine.ends});
      guests_[guest].estimates.measured(1, piece.length);
      policy_->finish(piece.work, piece.length, now_);
      if (!engine.pieces.empty()) engine.ends += engine.pieces.front().length;
    }
  }
}

uint64_t DeviceSim::next_arrival(const State& state) const {
  const Guest& guest = state.guest;
  if (guest.period != 0) return state.next_arrival;
  if (guest.off == 0) return kNever;
  const uint64_t phase = now_ % (guest.on + guest.off);
  return now_ - phase + (phase < guest.on ? guest.on : guest.on + guest.off);
}

uint64_t DeviceSim::next_event() const {
  uint64_t next = policy_->retry_at(now_);
  for (const State& state : guests_) next = std::min(next, next_arrival(state));
  for (const Running& engine : engines_) {
    if (!engine.pieces.empty()) next = std::min(next, engine.ends);
  }
  return std::max(next, now_ + 1);
}

void DeviceSim::run(uint64_t until) {
  while (now_ < until) {
    finish();
    for (State& state : guests_) arrive(&state);
    offer();
    const uint64_t next = std::min(next_event(), until);
    for (uint32_t i = 0; i < engines_.size(); ++i) {
      const bool waits = std::any_of(guests_.begin(), guests_.end(), [&](const State& state) {
        return static_cast<uint32_t>(state.guest.engine) == i && !state.queue.empty();
      });
      if (engines_[i].pieces.empty() && waits) idle_ += next - now_;
    }
    now_ = next;
  }
  finish();
}

uint64_t DeviceSim::service(uint32_t guest, uint64_t from, uint64_t to) const {
  uint64_t sum = 0;
  for (const Served& piece : served_) {
    if (piece.guest != guest) continue;
    const uint64_t begin = std::max(piece.started, from);
    const uint64_t end = std::min(piece.ended, to);
    if (end > begin) sum += end - begin;
  }
  return sum;
}

double jain(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(values.size()) * squares);
}

}  // namespace vgpu::simulation
