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
  client.share = share;
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
  clients_.erase(found);
  next_as_of_ = kNever;
}

void FairQueue::begin_waiting(Client* client, uint64_t now) {
  Class& mine = class_of(*client);
  next_as_of_ = kNever;
  client->waiting = true;
  // A minimum is for those who wait, not for having been away.
  if (mine.waiting++ == 0) mine.minimum.drop_credit(now);
  if (client->in_flight == 0) {
    client->virtual_start = std::max(client->virtual_start, mine.virtual_time);
  }
}

void FairQueue::stop_waiting(Client* client) {
  next_as_of_ = kNever;
  client->waiting = false;
  --class_of(*client).waiting;
}

void FairQueue::charge(Client* client, int64_t ns) {
  next_as_of_ = kNever;
  client->charged += ns;
  client->virtual_start += virtual_ns(ns, client->share);
  if (client->capped()) client->bucket.charge(ns);
  class_of(*client).minimum.charge(ns);
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

FairQueue::Client* FairQueue::first_of(uint32_t priority) {
  if (classes_[priority].waiting == 0) return nullptr;
  Client* best = nullptr;
  for (auto& [id, client] : clients_) {
    if (!client.waiting || static_cast<uint32_t>(client.share.priority) != priority) continue;
    if (!client.under_cap()) continue;
    if (best == nullptr || client.virtual_start < best->virtual_start) best = &client;
  }
  return best;
}

FairQueue::Client* FairQueue::next(uint64_t now) {
  if (next_as_of_ == now) return next_;
  fill(now);
  next_ = find_next();
  next_as_of_ = now;
  return next_;
}

FairQueue::Client* FairQueue::find_next() {
  Client* highest = nullptr;
  Client* owed = nullptr;
  for (uint32_t priority = 0; priority < kClasses; ++priority) {
    Client* first = first_of(priority);
    if (first == nullptr) continue;
    if (highest == nullptr) {
      highest = first;
    } else {
      const auto cost = static_cast<int64_t>(std::min(first->head_cost, limits_.burst_ns));
      if (class_of(*first).minimum.tokens() >= std::max<int64_t>(cost, 1)) owed = first;
    }
  }
  return owed != nullptr ? owed : highest;
}

bool FairQueue::admit(uint64_t id, uint64_t cost, uint64_t now) {
  Client& client = client_of(id, now);
  if (!client.waiting) begin_waiting(&client, now);
  if (client.head_cost != cost) next_as_of_ = kNever;
  client.head_cost = cost;
  if (in_flight_ >= limits_.window || next(now) != &client) return false;
  Class& mine = class_of(client);
  stop_waiting(&client);
  // What a cap has kept back is lost, not saved up.
  if (client.held) client.virtual_start = std::max(client.virtual_start, mine.virtual_time);
  client.held = false;
  mine.virtual_time = std::max(mine.virtual_time, client.virtual_start);
  charge(&client, static_cast<int64_t>(cost));
  ++client.in_flight;
  ++in_flight_;
  return true;
}

void FairQueue::finish(uint64_t id, uint64_t cost, uint64_t measured, uint64_t) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.in_flight == 0) return;  // it was removed meanwhile
  --found->second.in_flight;
  --in_flight_;
  if (measured == 0) return;
  charge(&found->second, static_cast<int64_t>(measured) - static_cast<int64_t>(cost));
}

void FairQueue::withdraw(uint64_t id) {
  const auto found = clients_.find(id);
  if (found != clients_.end() && found->second.waiting) stop_waiting(&found->second);
}

uint64_t FairQueue::retry_at(uint64_t now) const {
  if (in_flight_ >= limits_.window) return kNever;
  uint64_t soonest = kNever;
  for (const auto& [id, client] : clients_) {
    if (!client.waiting || client.under_cap()) continue;
    soonest = std::min(soonest, std::max(client.bucket.ready_at(1), now + 1));
  }
  return soonest;
}

int64_t FairQueue::charged_ns(uint64_t id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? 0 : found->second.charged;
}

}  // namespace vgpu::scheduler
