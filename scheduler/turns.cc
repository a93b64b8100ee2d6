// The rounds in which turns end and begin.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/turns.h"

#include <algorithm>

namespace vgpu::scheduler {
namespace {

// No engine does more than a nanosecond's work in one. A client may tell late of what it has used,
// but of no more than this at once; and so much too early: clocks are read one after the other.
constexpr uint64_t kToldLateMax = 60'000'000'000, kToldEarlyMax = 5'000'000;

// A look counts so much in the average, and a policy hears of it after so many.
constexpr uint32_t kLookPart = 8, kLooksEach = 4;

// Of the time for which a turn is held, the part that it costs at least.
constexpr uint64_t kHeldPart = 8;

// Pieces that run side by side take several times as long as each.
constexpr uint64_t kTimesCost = 4;

}  // namespace

void Turns::add(uint64_t id, const Share& share, const TurnReport& report, uint64_t now) {
  Client& client = clients_[id];
  client.share = share;
  client.last = report;
  client.last.wanted = 0;
  client.allowance = report.admitted;
  client.room = kToldEarlyMax;
  client.heard = now;
  policy_->set_share(id, share, now);
}

void Turns::remove(uint64_t id, uint64_t now) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  while (!found->second.turns.empty()) end_turn(&found->second, now);
  policy_->remove(id, now);
  clients_.erase(found);
  if (open_ == id) open_ = 0;
}

void Turns::set_share(uint64_t id, const Share& share, uint64_t now) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  found->second.share = share;
  policy_->set_share(id, share, now);
}

void Turns::report(uint64_t id, const TurnReport& report, uint64_t now) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  if (report != client.last) {
    client.asleep = false;
    client.active_until = now + limits_.pause_ns;
  } else if (report.wanted != 0 && !client.asleep) {
    client.active_until = now + limits_.pause_ns;
  }
  if (report.measured != client.last.measured || report.completed != client.last.completed)
    move(id, &client, now);
  believe(&client, report, now);
  client.last = report;
}

// A sum never falls; what does is not believed, and nothing that cannot be.
void Turns::believe(Client* client, const TurnReport& report, uint64_t now) {
  client->room = std::min(client->room + (now - client->heard), kToldLateMax);
  client->heard = now;
  if (report.measured <= client->last.measured) return;
  const uint64_t told = std::min(report.measured - client->last.measured, client->room);
  client->room -= told;
  const uint64_t paid = std::min(client->prepaid, told);
  client->prepaid -= paid;
  client->used += told - paid;
}

void Turns::move(uint64_t id, Client* client, uint64_t now) {
  client->moved = now;
  policy_->set_stalled(id, false);
}

bool Turns::contends(const Client& client, uint64_t now) const {
  return !client.asleep && (!client.idle() || now < client.active_until);
}

// When its oldest turn is late if nothing moves.
uint64_t Turns::late_at(const Client& client) const {
  const Turn& turn = client.turns.front();
  return std::max(turn.began, client.moved) +
         std::max(limits_.turn_max_ns, kTimesCost * turn.work.cost);
}

bool Turns::is_late(const Client& client, uint64_t now) const {
  return now >= late_at(client) ||
         client.used >= std::max(limits_.overrun_ns, kTimesCost * client.turns.front().work.cost);
}

void Turns::end_turn(Client* client, uint64_t now) {
  const Turn turn = client->turns.front();
  client->turns.pop_front();
  // Who keeps others out of the window pays for it, whatever it says that it has used. (0 would
  // mean that nobody knows.)
  const uint64_t held = (now - turn.began) / kHeldPart;
  if (held > client->used) client->prepaid += held - client->used;
  policy_->finish(turn.work, std::max<uint64_t>({client->used, held, 1}), now);
  client->used = 0;
}

uint64_t Turns::idle_until(const Client& client) const {
  return std::max(client.turns.front().began, client.moved) + limits_.idle_ns;
}

void Turns::end_turns(uint64_t id, Client* client, uint64_t now) {
  while (!client->turns.empty()) {
    const Turn& turn = client->turns.front();
    const bool over = client->past() >= turn.ends_at;
    const bool paused = client->idle() && now >= idle_until(*client);
    const bool late = !over && !paused && is_late(*client, now);
    if (!over && !late && !paused) break;
    if (paused) client->allowance = client->last.admitted;
    if (late) {
      client->asleep = client->last.admitted == turn.admitted;
      client->given_up = client->last.admitted;
      policy_->set_stalled(id, true);
    }
    end_turn(client, now);
  }
  settle(id, client, now);
}

// What was used between turns, and credit that was not used for some time.
void Turns::settle(uint64_t id, Client* client, uint64_t now) {
  if (open_ == id) {
    client->used = 0;  // nobody else wanted it
    return;
  }
  if (client->turns.empty() && client->used != 0) {
    policy_->used({id, 0, client->used, engine_}, now);
    client->used = 0;
  }
  if (client->allowance > client->last.admitted && !contends(*client, now) && !client->asleep) {
    client->allowance = client->last.admitted;
  }
}

void Turns::open_or_close(uint64_t now) {
  uint64_t contenders = 0, one = 0;
  for (const auto& [id, client] : clients_) {
    if (!contends(client, now)) continue;
    ++contenders;
    one = id;
  }
  if (open_ != 0) {
    Client& client = clients_.at(open_);
    const bool alone = contenders == 0 || (contenders == 1 && one == open_);
    if (alone && client.share.cap_permille >= kPermille) return;
    client.allowance = client.last.admitted;
    open_ = 0;
  }
  if (contenders != 1) return;
  Client& client = clients_.at(one);
  if (client.share.cap_permille < kPermille || client.last.wanted == 0) return;
  while (!client.turns.empty()) end_turn(&client, now);
  policy_->withdraw(one, now);
  client.offered = client.throttled = false;
  client.allowance = kOpen;
  client.used = 0;
  open_ = one;
}

// Whether it has got a turn.
bool Turns::offer(uint64_t id, Client* client, uint64_t now) {
  if (id == open_ || !client->lacks_credit()) {
    if (client->offered) policy_->withdraw(id, now);
    client->offered = false;
    return false;
  }
  if (!client->offered) client->throttled = false;
  const uint64_t wanted = std::clamp<uint64_t>(client->last.wanted, 1, limits_.turn_max_ns);
  const Work work{id, ++sequence_,
                  limits_.one_piece ? wanted : std::max(wanted, limits_.quantum_ns), engine_};
  client->offered = true;
  if (!policy_->admit(work, now)) {
    client->throttled |= policy_->throttled(id);
    return false;
  }
  client->offered = false;
  // From a nanosecond on a piece may begin.
  client->allowance = client->last.admitted + (limits_.one_piece ? 1 : limits_.quantum_ns);
  client->turns.push_back({work, client->allowance, now, client->last.admitted});
  return true;
}

// By whether there is work under way, not by device time used: a machine whose processors are busy
// with other things makes a software device slow, not idle.
void Turns::look(uint64_t now) {
  if (now < looked_at_ + limits_.look_ns) return;
  looked_at_ = now;
  const bool waited = std::any_of(clients_.begin(), clients_.end(),
                                  [](const auto& entry) { return entry.second.offered; });
  if (waited) waited_at_ = forgot_at_ = now;
  for (; now >= forgot_at_ + limits_.forget_ns; forgot_at_ += limits_.forget_ns) {
    if (!policy_->forget_busy(engine_)) forgot_at_ = now;
  }
  if (now >= waited_at_ + limits_.wait_counts_ns) {
    busy_ = kPermille;
    return;
  }
  const bool under_way = std::any_of(clients_.begin(), clients_.end(), [](const auto& entry) {
    return entry.second.in_flight() != 0;
  });
  busy_ = busy_ - busy_ / kLookPart + (under_way ? kPermille / kLookPart : 0);
  if (++looks_ % kLooksEach == 0) policy_->set_busy(engine_, busy_);
}

void Turns::round(uint64_t now) {
  look(now);
  for (auto& [id, client] : clients_) end_turns(id, &client, now);
  open_or_close(now);
  // Until nobody gets any more: one turn each at most, since who has got one lacks none.
  for (bool given = true; given;) {
    given = false;
    for (auto& [id, client] : clients_) given |= offer(id, &client, now);
  }
}

uint64_t Turns::next_round(uint64_t now) const {
  uint64_t soonest = kNever;
  for (const auto& [id, client] : clients_) {
    if (id == open_) continue;
    if (!client.turns.empty()) {
      soonest =
          std::min({soonest, late_at(client), std::max(idle_until(client), now + limits_.idle_ns)});
    }
    // Its credit ends, or another may have the engine without turns.
    if (now < client.active_until) soonest = std::min(soonest, client.active_until);
    if (client.offered)
      soonest = std::min({soonest, policy_->retry_at(now), looked_at_ + limits_.look_ns});
  }
  return soonest == kNever ? kNever : std::max(soonest, now + 1);
}

uint64_t Turns::allowance(uint64_t id) const {
  const auto found = clients_.find(id);
  return found == clients_.end() ? 0 : found->second.allowance;
}

uint64_t Turns::turn_end(uint64_t id) const {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.turns.empty()) return kOpen;
  return found->second.turns.front().ends_at;
}

bool Turns::throttled(uint64_t id) const {
  const auto found = clients_.find(id);
  return found != clients_.end() && found->second.throttled;
}

}  // namespace vgpu::scheduler
