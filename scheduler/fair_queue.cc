// Tags, classes and buckets of the fair queue.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fair_queue.h"

#include <algorithm>

namespace vgpu::scheduler {
namespace {

// Virtual nanoseconds of a real one at weight 1; divided by the weight. A client of weight 1 may
// use a device for a year before the sum leaves 63 bits.
constexpr int64_t kVirtualUnit = 256;

int64_t virtual_ns(int64_t ns, const Share& share) {
  const auto weight = static_cast<int64_t>(std::clamp(share.weight, 1u, kWeightMax));
  return ns * kVirtualUnit / weight;
}

// Thousandths of the time for which an engine has work: from kBusyHeld on those whose turn it is
// not may be held back, below kBusyEnough more may be under way, above kBusyFull less.
constexpr uint32_t kBusyHeld = 600, kBusyEnough = 850, kBusyFull = 950;

// How far ahead of its class a client can be put, in device time of its own, whatever is charged.
constexpr int64_t kLeadMax = 60'000'000'000;

// A capped client may save up as much as it would get in the time of a burst.
uint64_t cap_burst(const Share& share, const FairLimits& limits) {
  return limits.burst_ns * share.cap_permille / kPermille + 1;
}

}  // namespace

FairQueue::Client::Client(const Share& asked, const FairLimits& limits, uint64_t now)
    : share(asked), bucket(asked.cap_permille, cap_burst(asked, limits), now) {}

FairQueue::Client& FairQueue::client_of(uint64_t id, uint64_t now) {
  const auto found = clients_.find(id);
  if (found != clients_.end()) return found->second;
  return clients_.emplace(id, Client(Share{}, limits_, now)).first->second;
}

void FairQueue::set_share(uint64_t id, const Share& share, uint64_t now) {
  Client& client = client_of(id, now);
  const bool waiting = client.waiting;
  const bool same_cap = client.share.cap_permille == share.cap_permille;
  const bool same_class = client.share.priority == share.priority;
  if (waiting) stop_waiting(&client);
  class_of(client).in_flight -= client.in_flight;
  client.share = share;
  class_of(client).in_flight += client.in_flight;
  next_as_of_ = kNever;
  if (!same_cap) client.bucket = TokenBucket(share.cap_permille, cap_burst(share, limits_), now);
  // Times of different classes have nothing to do with each other.
  if (!same_class) client.virtual_start = class_of(client).virtual_time;
  if (waiting) begin_waiting(&client, now);
}

void FairQueue::remove(uint64_t id) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  if (found->second.waiting) stop_waiting(&found->second);
  in_flight_ -= std::min(in_flight_, found->second.in_flight);
  class_of(found->second).in_flight -= found->second.in_flight;
  clients_.erase(found);
  next_as_of_ = kNever;
}

void FairQueue::begin_waiting(Client* client, uint64_t now) {
  Class& mine = class_of(*client);
  next_as_of_ = kNever;
  client->waiting = true;
  client->waiting_since = now;
  // A minimum is for those who wait, not for having been away.
  if (mine.waiting++ == 0) mine.minimum.drop_credit(now);
  // Who has just seen the end of what he had was not away.
  const bool was_away = away(*client, now);
  if (client->in_flight == 0) {
    const uint64_t most = FairLimits::kPatienceTimes * limits_.patience_ns;
    const uint64_t gap = std::min(now - std::min(now, client->finished_at), 2 * most);
    client->gap = client->gap - client->gap / 4 + gap / 4;
  }
  catch_up(client, was_away);
}

void FairQueue::catch_up(Client* client, bool was_away) {
  const int64_t slack =
      was_away ? 0 : virtual_ns(static_cast<int64_t>(limits_.slack_ns), client->share);
  client->virtual_start = std::max(client->virtual_start, class_of(*client).virtual_time - slack);
}

void FairQueue::stop_waiting(Client* client) {
  next_as_of_ = kNever;
  client->waiting = false;
  --class_of(*client).waiting;
}

void FairQueue::charge(Client* client, int64_t ns) {
  next_as_of_ = kNever;
  client->charged += ns;
  const int64_t most = class_of(*client).virtual_time + virtual_ns(kLeadMax, client->share);
  client->virtual_start = std::min(client->virtual_start + virtual_ns(ns, client->share), most);
  if (client->capped()) client->bucket.charge(ns);
}

void FairQueue::fill(uint64_t now) {
  for (auto& [id, client] : clients_) {
    if (!client.capped()) continue;
    client.bucket.fill(now);
    if (client.waiting && !client.under_cap()) client.held = true;
  }
  for (Class& each : classes_) {
    if (each.waiting != 0) each.minimum.fill(now);
  }
}

uint64_t FairQueue::patience_for(const Client& client) const {
  return asks_soon(client) ? std::max(2 * client.gap, limits_.patience_ns) : limits_.patience_ns;
}

bool FairQueue::class_lingers(uint32_t priority) const {
  return std::any_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
    const Client& client = entry.second;
    return static_cast<uint32_t>(client.share.priority) == priority && client.in_flight != 0 &&
           !client.waiting && !client.stalled && client.under_cap();
  });
}

// Whether one of its class who has had less will probably ask soon.
bool FairQueue::is_held(const Client& first, uint64_t now) const {
  if (spare_ || now >= first.waiting_since + limits_.hold_ns_max) return false;
  return std::any_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
    const Client& other = entry.second;
    return other.share.priority == first.share.priority &&
           other.virtual_start < first.virtual_start && lingers(other, now);
  });
}

FairQueue::Client* FairQueue::first_of(uint32_t priority, uint64_t now) {
  if (classes_[priority].waiting == 0) return nullptr;
  Client* best = nullptr;
  for (auto& [id, client] : clients_) {
    if (!client.waiting || static_cast<uint32_t>(client.share.priority) != priority) continue;
    if (!client.under_cap()) continue;
    if (best == nullptr || client.virtual_start < best->virtual_start) best = &client;
  }
  return best != nullptr && is_held(*best, now) ? nullptr : best;
}

FairQueue::Client* FairQueue::next(uint64_t now) {
  if (next_as_of_ == now) return next_;
  fill(now);
  next_ = find_next(now);
  next_as_of_ = now;
  return next_;
}

FairQueue::Client* FairQueue::find_next(uint64_t now) {
  Client* highest = nullptr;
  Client* owed = nullptr;
  bool expected = false;  // somebody of a class above will ask
  for (uint32_t priority = 0; priority < kClasses; ++priority) {
    Client* first = first_of(priority, now);
    if (first == nullptr) {
      expected |= limits_.hold_ns_max != 0 && !spare_ && class_lingers(priority);
      continue;
    }
    const bool held = expected && now < first->waiting_since + limits_.hold_ns_max;
    if (highest == nullptr && !held) {
      highest = first;
    } else {
      const auto cost = static_cast<int64_t>(std::min(first->head_cost, limits_.burst_ns));
      if (class_of(*first).minimum.tokens() >= std::max<int64_t>(cost, 1)) owed = first;
    }
  }
  next_owed_ = owed != nullptr;
  return next_owed_ ? owed : highest;
}

bool FairQueue::has_room(const Client& client) const {
  const uint32_t window = limits_.window + extra_;
  if (in_flight_ < window) return true;
  if (in_flight_ >= window + limits_.urgent) return false;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(client.share.priority); ++i) {
    if (classes_[i].in_flight != 0) return false;
  }
  return true;
}

bool FairQueue::admit(uint64_t id, uint64_t cost, uint64_t now) {
  Client& client = client_of(id, now);
  if (!client.waiting) begin_waiting(&client, now);
  if (client.head_cost != cost) next_as_of_ = kNever;
  client.head_cost = cost;
  // Also without room: it brings the buckets up to date.
  if (next(now) != &client || !has_room(client)) return false;
  const bool owed = next_owed_;
  Class& mine = class_of(client);
  stop_waiting(&client);
  // What a cap has kept back is lost, not saved up.
  if (client.held) client.virtual_start = std::max(client.virtual_start, mine.virtual_time);
  client.held = false;
  mine.virtual_time = std::max(mine.virtual_time, client.virtual_start);
  charge(&client, static_cast<int64_t>(cost));
  // A minimum is used up by what it has let pass, not by what was to be had anyway.
  if (owed) mine.minimum.charge(static_cast<int64_t>(cost));
  client.owed.push_back(owed);
  ++client.in_flight;
  ++mine.in_flight;
  ++in_flight_;
  return true;
}

void FairQueue::finish(uint64_t id, uint64_t cost, uint64_t measured, uint64_t now) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.in_flight == 0) return;  // it was removed meanwhile
  --found->second.in_flight;
  found->second.finished_at = now;
  next_as_of_ = kNever;
  --class_of(found->second).in_flight;
  --in_flight_;
  const bool owed = found->second.owed.front();
  found->second.owed.pop_front();
  if (measured == 0) return;
  const int64_t more = static_cast<int64_t>(measured) - static_cast<int64_t>(cost);
  charge(&found->second, more);
  if (owed) class_of(found->second).minimum.charge(more);
}

void FairQueue::withdraw(uint64_t id) {
  const auto found = clients_.find(id);
  if (found != clients_.end() && found->second.waiting) stop_waiting(&found->second);
}

uint64_t FairQueue::retry_at(uint64_t now) const {
  uint64_t soonest = kNever;
  const auto no_later = [&](uint64_t time) {
    if (time > now) soonest = std::min(soonest, time);
  };
  bool room = false;  // for somebody who waits
  for (const auto& [id, client] : clients_) {
    if (!client.waiting || !has_room(client)) continue;
    room = true;
    if (!client.under_cap()) no_later(std::max(client.bucket.ready_at(1), now + 1));
    if (limits_.hold_ns_max != 0) no_later(client.waiting_since + limits_.hold_ns_max);
  }
  if (!room || limits_.hold_ns_max == 0) return soonest;
  for (const auto& [id, client] : clients_) {
    if (!client.waiting) no_later(client.finished_at + patience_for(client));
  }
  return soonest;
}

void FairQueue::used(uint64_t id, uint64_t ns, uint64_t now) {
  Client& client = client_of(id, now);
  // As begin_waiting(): what was not used meanwhile is not there to be used now.
  if (!client.waiting) catch_up(&client, away(client, now));
  charge(&client, static_cast<int64_t>(ns));
}

void FairQueue::set_stalled(uint64_t id, bool stalled) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.stalled == stalled) return;
  found->second.stalled = stalled;
  next_as_of_ = kNever;
}

void FairQueue::set_busy(uint32_t permille) {
  // More room is of use only where there is none left.
  const bool full = in_flight_ >= limits_.window + extra_;
  if (permille < kBusyEnough && full && extra_ < clients_.size()) ++extra_;
  if (permille > kBusyFull) extra_ -= std::min(extra_, 1u);
  spare_ = permille < kBusyHeld;
  next_as_of_ = kNever;
}

bool FairQueue::forget_busy() {
  spare_ = false;
  next_as_of_ = kNever;
  if (extra_ == 0) return false;
  return --extra_ != 0;
}

bool FairQueue::throttled(uint64_t id) const {
  const auto found = clients_.find(id);
  return found != clients_.end() && found->second.waiting && !found->second.under_cap();
}

int64_t FairQueue::charged_ns(uint64_t id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? 0 : found->second.charged;
}

}  // namespace vgpu::scheduler
