// vgpud.toml: plain settings, profiles, tenants.
// SPDX-License-Identifier: Apache-2.0
#include "server/config_file.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <set>

#include "server/config_table.h"
#include "server/token_file.h"

namespace vgpu::server {
namespace {

using protocol::GuestLimitInfo;

constexpr double kLaunchSecondsMax = 1e6;

void take_limits(const ConfigTable& table, protocol::GuestLimits* limits) {
  for (size_t i = 0; i < protocol::kGuestLimits; ++i) {
    const GuestLimitInfo& info = protocol::kGuestLimitInfo[i];
    uint64_t* value = &limits->values[i];
    const std::string unit = info.unit;
    if (unit == "bytes") {
      table.take_size(info.name, value);
    } else if (unit == "seconds") {
      table.take_thousandths(info.name, 0.001, kLaunchSecondsMax, value);
    } else {
      table.take_number(info.name, static_cast<int64_t>(info.least),
                        static_cast<int64_t>(info.fallback), value);
    }
    if (*value < info.least) table.fault(info.name, "is below the least that a guest needs");
    if (*value > info.fallback) table.fault(info.name, "is above the most that a worker bears");
  }
}

// What is not there is refused, so that nobody believes to have it.
void take_mode(const ConfigTable& table, Profile* profile) {
  std::string mode = mode_name(profile->mode);
  table.take("mode", &mode);
  if (const auto known = mode_named(mode)) {
    profile->mode = *known;
  } else {
    table.fault("mode", "must be \"isolated\", \"mps\" or \"packed\", not '" + mode + "'");
  }
  uint64_t percent = profile->thread_percent;
  table.take_number("thread_percentage", 1, 100, &percent);
  profile->thread_percent = static_cast<uint32_t>(percent);
  if (table.has("thread_percentage") && profile->mode != SharingMode::kMps)
    table.fault("thread_percentage", "has a meaning with mode = \"mps\" only");
}

Profile take_profile(const ConfigTable& table) {
  table.allow({"mode", "thread_percentage", "memory", "weight", "cap", "priority", "exclusive",
               "streams", "events", "modules", "handles", "pinned_memory", "queued_bytes",
               "threads", "launch_seconds"});
  Profile profile;
  take_mode(table, &profile);
  table.take_size("memory", &profile.memory_bytes);
  uint64_t weight = profile.share.weight, cap = profile.share.cap_permille * uint64_t{100};
  table.take_number("weight", 1, scheduler::kWeightMax, &weight);
  table.take_thousandths("cap", 0.1, 100, &cap);  // thousandths of a percent
  profile.share.weight = static_cast<uint32_t>(weight);
  profile.share.cap_permille = static_cast<uint32_t>(std::max<uint64_t>(1, cap / 100));
  std::string priority = priority_name(profile.share.priority);
  table.take("priority", &priority);
  if (!parse_priority(priority, &profile.share.priority))
    table.fault("priority", "must be \"system\", \"latency\", \"normal\" or \"spot\"");
  table.take("exclusive", &profile.exclusive);
  if (profile.exclusive && profile.mode == SharingMode::kPacked)
    table.fault("exclusive", "has no meaning with mode = \"packed\"");
  if (profile.exclusive && table.has("memory"))
    table.fault("memory", "has no meaning beside 'exclusive': the guest has the whole device");
  take_limits(table, &profile.limits);
  return profile;
}

std::optional<uid_t> user_of(const std::string& name) {
  const passwd* found = getpwnam(name.c_str());
  return found == nullptr ? std::nullopt : std::optional<uid_t>(found->pw_uid);
}

std::optional<gid_t> group_of(const std::string& name) {
  const group* found = getgrnam(name.c_str());
  return found == nullptr ? std::nullopt : std::optional<gid_t>(found->gr_gid);
}

Tenant take_tenant(const std::string& name, const ConfigTable& table) {
  table.allow({"uids", "gids", "profiles", "default_profile", "memory", "guests"});
  Tenant tenant;
  tenant.name = name;
  table.take_ids("uids", user_of, &tenant.uids);
  table.take_ids("gids", group_of, &tenant.gids);
  table.take_texts("profiles", &tenant.profiles);
  std::string first;
  table.take("default_profile", &first);
  const auto place = std::find(tenant.profiles.begin(), tenant.profiles.end(), first);
  if (!first.empty() && tenant.profiles.empty()) {
    table.fault("default_profile", "needs a list of 'profiles' that it is in");
  } else if (!first.empty() && place == tenant.profiles.end()) {
    table.fault("default_profile", "is not among its 'profiles': '" + first + "'");
  } else if (!first.empty()) {
    std::rotate(tenant.profiles.begin(), place, place + 1);
  }
  table.take_size("memory", &tenant.memory_bytes);
  uint64_t guests = 0;
  table.take_number("guests", 1, 100'000, &guests);
  tenant.guests_max = static_cast<uint32_t>(guests);
  return tenant;
}

// A relative path is meant from where the configuration is.
std::string beside(const std::string& config, const std::string& path) {
  const size_t slash = config.rfind('/');
  return path.front() == '/' || slash == std::string::npos ? path
                                                           : config.substr(0, slash + 1) + path;
}

void take_tokens(const ConfigTable& root, const std::string& config, std::vector<Tenant>* tenants) {
  std::string path;
  root.take("token_file", &path);
  if (path.empty()) return;
  auto tokens = read_token_file(beside(config, path));
  if (!tokens.ok()) return root.fault("token_file", "cannot be used: " + tokens.status().text());
  for (Tenant& tenant : *tenants) {
    const auto found = tokens->find(tenant.name);
    if (found == tokens->end()) continue;
    tenant.token = found->second;
    tokens->erase(found);
  }
  if (!tokens->empty())
    root.fault("token_file",
               "has a token for '" + tokens->begin()->first + "', which is no tenant");
}

void take_policy(const ConfigTable& root, const std::string& path, ConfigReport* report,
                 Policy* policy) {
  std::map<std::string, Profile> profiles;
  std::vector<Tenant> tenants;
  root.each_table("profile", [&](const std::string& name, const ConfigTable& table) {
    if (!policy_name_ok(name)) root.fault("profile", "has a name that cannot be: '" + name + "'");
    profiles[name] = take_profile(table);
  });
  root.each_table("tenant", [&](const std::string& name, const ConfigTable& table) {
    if (!policy_name_ok(name)) root.fault("tenant", "has a name that cannot be: '" + name + "'");
    tenants.push_back(take_tenant(name, table));
  });
  take_tokens(root, path, &tenants);
  if (!report->status.ok()) return;
  Result<Policy> made = Policy::make(std::move(profiles), std::move(tenants));
  if (!made.ok()) return root.fault("tenant", "cannot be so: " + made.status().text());
  *policy = std::move(made).value();
}

void take_flag(const ConfigTable& root, const char* key, std::optional<bool>* flag) {
  if (!root.has(key)) return;
  bool value = false;
  root.take(key, &value);
  *flag = value;
}

ConfigFile take_all(const toml::table& table, ConfigReport* report) {
  const ConfigTable root(table, "", report);
  root.allow({"listen",
              "driver",
              "memory_default",
              "headroom",
              "log_level",
              "socket_mode",
              "workers_ahead",
              "devices",
              "guest_devices",
              "worker_users",
              "metrics",
              "scheduler",
              "mps_control",
              "token_file",
              "server_key",
              "authorized_keys",
              "require_encryption",
              "tenants_reach_host_memory",
              "network_grace",
              "profile",
              "tenant"});
  ConfigFile file;
  root.take_text_or_texts("listen", &file.listen);
  root.take("driver", &file.driver);
  root.take("devices", &file.devices);
  root.take("memory_default", &file.memory_default);
  root.take("headroom", &file.headroom);
  root.take("log_level", &file.log_level);
  root.take("socket_mode", &file.socket_mode);
  root.take("worker_users", &file.worker_users);
  root.take("metrics", &file.metrics);
  root.take("scheduler", &file.scheduler);
  root.take("mps_control", &file.mps_control);
  root.take("server_key", &file.server_key);
  root.take("authorized_keys", &file.authorized_keys);
  take_flag(root, "require_encryption", &file.require_encryption);
  take_flag(root, "tenants_reach_host_memory", &file.tenants_reach_host_memory);
  root.take("network_grace", &file.network_grace);
  root.take("workers_ahead", &file.workers_ahead);
  root.take("guest_devices", &file.guest_devices);
  take_policy(root, report->file, report, &file.policy);
  return file;
}

}  // namespace

Result<ConfigFile> read_config_file(const std::string& path) {
  ConfigReport report;
  report.file = path;
  try {
    const toml::table table = toml::parse_file(path);
    ConfigFile file = take_all(table, &report);
    if (!report.status.ok()) return report.status;
    return file;
  } catch (const toml::parse_error& error) {
    report.fault(error.source(), std::string(error.description()));
    return report.status;
  }
}

}  // namespace vgpu::server
