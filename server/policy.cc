// Who a guest belongs to, and what it may have.
// SPDX-License-Identifier: Apache-2.0
#include "server/policy.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "server/grants.h"

namespace vgpu::server {
namespace {

using scheduler::PriorityClass;
using scheduler::Share;

constexpr char kDefaultProfile[] = "default";
constexpr char kEverybody[] = "everybody";
constexpr const char* kPriorityNames[scheduler::kClasses] = {"system", "latency", "normal", "spot"};

Status invalid(const std::string& text) { return Status(StatusCode::kInvalidArgument, text); }
Status denied(const std::string& text) { return Status(StatusCode::kPermissionDenied, text); }

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

template <typename Id>
bool has(const std::vector<Id>& list, Id id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

bool is_of(const Tenant& tenant, const PeerIdentity& peer) {
  return has(tenant.uids, peer.uid) ||
         std::any_of(peer.gids.begin(), peer.gids.end(),
                     [&](gid_t gid) { return has(tenant.gids, gid); });
}

// Two tenants that one user would be of. Users go before groups, so only equals collide.
template <typename Id>
Status check_unique(const std::vector<Tenant>& tenants, std::vector<Id> Tenant::*ids,
                    const char* what) {
  std::map<Id, std::string> owner;
  for (const Tenant& tenant : tenants) {
    if (!tenant.token.empty()) continue;
    for (const Id id : tenant.*ids) {
      const auto [known, fresh] = owner.emplace(id, tenant.name);
      if (!fresh && known->second != tenant.name)
        return invalid(std::string(what) + " " + std::to_string(id) + " is of tenant '" +
                       known->second + "' and of '" + tenant.name +
                       "': tenants that share a user need tokens");
    }
  }
  return ok_status();
}

Status check_tenant(const std::map<std::string, Profile>& profiles, const Tenant& tenant) {
  const std::string who = "tenant '" + tenant.name + "': ";
  for (const std::string& name : tenant.profiles) {
    if (profiles.count(name) == 0) return invalid(who + "there is no profile '" + name + "'");
  }
  return ok_status();
}

// What was asked of the share, within what the profile has; `bounded`: it may not be more.
Status take_share(const GuestAsk& ask, bool bounded, const std::string& profile, Share* share) {
  const auto too_much = [&](const std::string& text) {
    return Status(StatusCode::kResourceExhausted, text + " (profile '" + profile + "')");
  };
  if (ask.weight > scheduler::kWeightMax || ask.cap_permille > scheduler::kPermille ||
      ask.priority > scheduler::kClasses) {
    return invalid("a share that cannot be");
  }
  if (ask.weight != 0) {
    if (bounded && ask.weight > share->weight)
      return too_much("a share of " + std::to_string(ask.weight) + " was asked for, at most " +
                      std::to_string(share->weight) + " is allowed");
    share->weight = ask.weight;
  }
  if (ask.cap_permille != 0) {
    if (bounded && ask.cap_permille > share->cap_permille)
      return too_much("a cap above " + std::to_string(share->cap_permille / 10) +
                      " % was asked for, which is not allowed");
    share->cap_permille = ask.cap_permille;
  }
  if (ask.priority != 0) {
    const auto wanted = static_cast<PriorityClass>(ask.priority - 1);
    if (bounded && wanted < share->priority)
      return too_much(std::string("priority ") + priority_name(wanted) +
                      " was asked for, at most " + priority_name(share->priority) + " is allowed");
    share->priority = wanted;
  }
  return ok_status();
}

// `ask` over `share`, whatever it is.
void lay_over(const GuestAsk& ask, Share* share) {
  if (ask.weight != 0) share->weight = ask.weight;
  if (ask.cap_permille != 0) share->cap_permille = ask.cap_permille;
  if (ask.priority != 0) share->priority = static_cast<PriorityClass>(ask.priority - 1);
}

}  // namespace

const char* mode_name(SharingMode mode) { return protocol::kModeNames[static_cast<size_t>(mode)]; }

std::optional<SharingMode> mode_named(const std::string& name) {
  for (uint32_t i = 0; i < kSharingModes; ++i) {
    if (name == protocol::kModeNames[i]) return static_cast<SharingMode>(i);
  }
  return std::nullopt;
}

const char* priority_name(PriorityClass priority) {
  const auto index = static_cast<size_t>(priority);
  return index < std::size(kPriorityNames) ? kPriorityNames[index] : "?";
}

bool parse_priority(const std::string& name, PriorityClass* priority) {
  const auto* found = std::find(std::begin(kPriorityNames), std::end(kPriorityNames), name);
  if (found == std::end(kPriorityNames)) return false;
  *priority = static_cast<PriorityClass>(found - std::begin(kPriorityNames));
  return true;
}

bool policy_name_ok(const std::string& name) {
  return !name.empty() && name.size() <= kPolicyNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

bool same_secret(const std::string& one, const std::string& other) {
  size_t different = one.size() ^ other.size();
  if (other.empty()) return different == 0;
  for (size_t i = 0; i < one.size(); ++i)
    different |= static_cast<size_t>(static_cast<uint8_t>(one[i] ^ other[i % other.size()]));
  return different == 0;
}

Policy::Policy() : open_(true) {
  profiles_[kDefaultProfile];
  Tenant everybody;
  everybody.name = kEverybody;
  everybody.profiles = {kDefaultProfile};
  tenants_.push_back(std::move(everybody));
}

Result<Policy> Policy::make(std::map<std::string, Profile> profiles, std::vector<Tenant> tenants) {
  Policy policy;
  policy.open_ = profiles.empty();
  policy.divides_ = !tenants.empty();
  if (!profiles.empty()) policy.profiles_ = std::move(profiles);
  std::vector<std::string> all;
  for (const auto& [name, profile] : policy.profiles_) all.push_back(name);
  // The one that is called so is the default.
  std::stable_partition(all.begin(), all.end(),
                        [](const std::string& name) { return name == kDefaultProfile; });
  if (tenants.empty()) {
    policy.tenants_[0].profiles = all;
    return policy;
  }
  for (Tenant& tenant : tenants) {
    VGPU_RETURN_IF_ERROR(check_tenant(policy.profiles_, tenant));
    if (tenant.profiles.empty()) tenant.profiles = all;
  }
  VGPU_RETURN_IF_ERROR(check_unique(tenants, &Tenant::uids, "user"));
  VGPU_RETURN_IF_ERROR(check_unique(tenants, &Tenant::gids, "group"));
  std::set<std::string> tokens;
  for (const Tenant& tenant : tenants) {
    if (!tenant.token.empty() && !tokens.insert(tenant.token).second)
      return invalid("tenant '" + tenant.name + "' has the token of another");
  }
  policy.tenants_ = std::move(tenants);
  return policy;
}

Status Policy::check_ways_in(bool network) const {
  for (const Tenant& tenant : tenants_) {
    if (!divides_ || network) break;
    if (tenant.uids.empty() && tenant.gids.empty() && tenant.token.empty())
      return invalid("tenant '" + tenant.name +
                     "': nobody can be of it: it needs uids, gids or a token, as this server "
                     "listens on no network, where keys are enough");
  }
  return ok_status();
}

Result<const Tenant*> Policy::identify(const PeerIdentity& peer, const std::string& token) const {
  if (!divides_) return &tenants_[0];
  const std::string user = "user " + std::to_string(peer.uid);
  if (!token.empty()) {
    const Tenant* found = nullptr;
    for (const Tenant& tenant : tenants_) {  // all of them, whichever it is
      if (same_secret(token, tenant.token) && !tenant.token.empty()) found = &tenant;
    }
    if (found == nullptr) return denied("the token is none of this server's");
    const bool anybody = found->uids.empty() && found->gids.empty();
    if (!anybody && !is_of(*found, peer)) return denied("the token is not for " + user);
    return found;
  }
  bool needs_token = false;
  const Tenant* by_group = nullptr;
  for (const Tenant& tenant : tenants_) {
    if (!is_of(tenant, peer)) continue;
    if (!tenant.token.empty()) {
      needs_token = true;
    } else if (has(tenant.uids, peer.uid)) {
      return &tenant;
    } else if (by_group == nullptr) {
      by_group = &tenant;
    }
  }
  if (by_group != nullptr) return by_group;
  return denied(user + (needs_token ? " needs a token here (VGPU_TOKEN_FILE)"
                                    : " belongs to no tenant of this server"));
}

Result<GuestTerms> Policy::terms(const Tenant& tenant, const std::string& profile,
                                 const GuestAsk& ask, bool trusted) const {
  GuestTerms terms;
  terms.tenant = tenant.name;
  terms.profile = profile.empty() ? tenant.profiles.front() : profile;
  const auto found = profiles_.find(terms.profile);
  if (found == profiles_.end() || !has(tenant.profiles, terms.profile)) {
    return denied("tenant '" + tenant.name + "' may not have profile '" + terms.profile +
                  "', but: " + listed(tenant.profiles));
  }
  const Profile& base = found->second;
  const bool bounded = !open_ || !trusted;
  terms.share = base.share;
  VGPU_RETURN_IF_ERROR(take_share(ask, bounded, terms.profile, &terms.share));
  if (base.memory_bytes != 0 && ask.memory_bytes > base.memory_bytes) {
    return Status(StatusCode::kResourceExhausted,
                  size_text(ask.memory_bytes) + " of device memory were asked for, profile '" +
                      terms.profile + "' has at most " + size_text(base.memory_bytes));
  }
  terms.memory_bytes = ask.memory_bytes != 0 ? ask.memory_bytes : base.memory_bytes;
  terms.mode = base.mode;
  terms.thread_percent = base.thread_percent;
  terms.exclusive = base.exclusive;
  terms.limits = base.limits;
  terms.tenant_memory_bytes = tenant.memory_bytes;
  terms.tenant_guests_max = tenant.guests_max;
  return terms;
}

std::optional<Share> Policy::share_of(const std::string& profile, const GuestAsk& ask,
                                      const GuestAsk& set, bool trusted) const {
  const auto found = profiles_.find(profile);
  if (found == profiles_.end()) return std::nullopt;
  const Share& most = found->second.share;
  Share share = most;
  lay_over(ask, &share);
  if (!open_ || !trusted) {
    share.weight = std::min(share.weight, most.weight);
    share.cap_permille = std::min(share.cap_permille, most.cap_permille);
    share.priority = std::max(share.priority, most.priority);
  }
  lay_over(set, &share);
  return share;
}

bool Policy::has_shares() const {
  return std::any_of(profiles_.begin(), profiles_.end(),
                     [](const auto& each) { return !(each.second.share == Share()); });
}

bool Policy::has_mode(SharingMode mode) const {
  return std::any_of(profiles_.begin(), profiles_.end(),
                     [mode](const auto& each) { return each.second.mode == mode; });
}

const Tenant* Policy::tenant(const std::string& name) const {
  const auto found = std::find_if(tenants_.begin(), tenants_.end(),
                                  [&](const Tenant& tenant) { return tenant.name == name; });
  return found == tenants_.end() ? nullptr : &*found;
}

}  // namespace vgpu::server
