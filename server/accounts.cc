// Counters and rates for the metrics endpoint.
// SPDX-License-Identifier: Apache-2.0
#include "server/accounts.h"

#include <algorithm>

namespace vgpu::server {
namespace {

// relaxed: a figure for people, and nothing is decided by it.
double value_of(const std::atomic<uint64_t>& word) {
  return static_cast<double>(word.load(std::memory_order_relaxed));
}

// Calls visit(field of a, field of b) for every counter.
template <typename A, typename B, typename Visit>
void for_each_counter(A& a, B& b, Visit visit) {
  visit(a.kernels, b.kernels);
  visit(a.copied_to, b.copied_to);
  visit(a.copied_from, b.copied_from);
  visit(a.refused, b.refused);
  for (size_t i = 0; i < a.engine_seconds.size(); ++i)
    visit(a.engine_seconds[i], b.engine_seconds[i]);
  visit(a.wait_seconds, b.wait_seconds);
  visit(a.throttled_seconds, b.throttled_seconds);
  for (size_t i = 0; i < a.waits.size(); ++i) visit(a.waits[i], b.waits[i]);
}

double jain_of(const std::vector<double>& shares) {
  double sum = 0, squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  if (shares.size() < 2 || squares <= 0) return 1;
  return sum * sum / (static_cast<double>(shares.size()) * squares);
}

}  // namespace

Used& Used::operator+=(const Used& other) {
  for_each_counter(*this, other, [](double& mine, double theirs) { mine += theirs; });
  return *this;
}

void Used::raise_to(const Used& other) {
  for_each_counter(*this, other,
                   [](double& mine, double theirs) { mine = std::max(mine, theirs); });
}

Used read_used(const WorkerPage& page) {
  Used used;
  used.kernels = value_of(page.kernels);
  used.copied_to = value_of(page.copied_bytes[0]);
  used.copied_from = value_of(page.copied_bytes[1]);
  used.refused = value_of(page.refused_allocations);
  for (size_t i = 0; i < used.engine_seconds.size(); ++i)
    used.engine_seconds[i] = value_of(page.device_ns[i]) / 1e9;
  used.wait_seconds = value_of(page.wait_ns) / 1e9;
  used.throttled_seconds = value_of(page.throttled_ns) / 1e9;
  for (size_t i = 0; i < used.waits.size(); ++i) used.waits[i] = value_of(page.waits[i]);
  return used;
}

const Used& Accounts::read(uint64_t session, const std::string& tenant, const Used& now) {
  Guest& guest = guests_[session];
  if (guest.tenant.empty()) {
    const auto known = [&](const auto& each) { return each.second.tenant == tenant; };
    const bool room = ended_tenants_.size() < kTenantsCounted ||
                      ended_tenants_.count(tenant) != 0 ||
                      std::any_of(guests_.begin(), guests_.end(), known);
    guest.tenant = room ? tenant : "other";
  }
  guest.used.raise_to(now);
  return guest.used;
}

void Accounts::end(uint64_t session) {
  const auto at = guests_.find(session);
  if (at == guests_.end()) return;
  ended_tenants_[at->second.tenant] += at->second.used;
  ended_ += at->second.used;
  guests_.erase(at);
}

std::map<std::string, Used> Accounts::tenants() const {
  std::map<std::string, Used> all = ended_tenants_;
  for (const auto& [session, guest] : guests_) all[guest.tenant] += guest.used;
  return all;
}

void Rates::add(uint64_t now_ns, std::vector<RateSample> samples) {
  if (before_ns_ != 0 && now_ns - before_ns_ < kRateWindowNs) return;
  const double span = static_cast<double>(now_ns - before_ns_) / 1e9;
  std::map<uint64_t, RateSample> now;
  std::vector<double> contended;
  busy_.clear();
  for (RateSample& sample : samples) {
    const auto at = before_.find(sample.session);
    const RateSample before = at != before_.end() ? at->second : RateSample{};
    const double computed = std::max(0.0, sample.compute_seconds - before.compute_seconds);
    if (sample.wait_seconds > before.wait_seconds)
      contended.push_back(computed / std::max(1U, sample.weight));
    for (const uint32_t device : sample.devices)
      busy_[device] += computed / static_cast<double>(sample.devices.size()) / span;
    now[sample.session] = std::move(sample);
  }
  // The first reading has no window: its counters are of no known time.
  if (before_ns_ == 0) busy_.clear();
  jain_ = before_ns_ == 0 ? 1 : jain_of(contended);
  before_ = std::move(now);
  before_ns_ = now_ns;
}

double Rates::busy(uint32_t device) const {
  const auto at = busy_.find(device);
  return at == busy_.end() ? 0 : std::min(1.0, at->second);
}

}  // namespace vgpu::server
