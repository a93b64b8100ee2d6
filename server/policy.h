// Profiles and tenants: who a guest belongs to, and what it may have. Pure: no file, no socket.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_POLICY_H_
#define VGPU_SERVER_POLICY_H_

#include <sys/types.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/guest_limits.h"
#include "protocol/session/admin_messages.h"
#include "scheduler/share.h"

namespace vgpu::server {

inline constexpr size_t kPolicyNameBytesMax = 63;  // of a profile or a tenant
inline constexpr size_t kTokenBytesMin = 16, kTokenBytesMax = 128;

// How a guest's work meets that of others on a device.
enum class SharingMode : uint8_t {
  kIsolated = 0,  // a process and a context for each guest
  kMps,           // processes of one tenant are clients of one MPS server
  kPacked,        // guests of one tenant in one process and one context
};
inline constexpr uint32_t kSharingModes = std::size(protocol::kModeNames);

// What a guest gets that asks for nothing, and the most that it may ask for.
struct Profile {
  SharingMode mode = SharingMode::kIsolated;
  uint32_t thread_percent = 100;  // kMps: the most of the multiprocessors that it uses
  uint64_t memory_bytes = 0;      // on each of its devices; 0: the server's default, and no bound
  scheduler::Share share;
  bool exclusive = false;  // whole devices, which nobody else is on
  protocol::GuestLimits limits;
};

struct Tenant {
  std::string name;
  std::vector<uid_t> uids;
  std::vector<gid_t> gids;
  std::string token;  // not empty: who belongs to it must know that, and be of uids or gids if any
  std::vector<std::string> profiles;  // that its guests may have, the default one first
  uint64_t memory_bytes = 0;          // of all its guests together, on all devices; 0: no bound
  uint32_t guests_max = 0;            // at once; 0: no bound
};

// Who is at the other end of a guest's connection, as the kernel says.
struct PeerIdentity {
  uid_t uid = 0;
  std::vector<gid_t> gids;
  bool trusted = false;  // root or the server's own user
};

// What a guest asked for, or an operator has set for it; 0 = nothing. Plain data: it goes from
// vgpud to its worker and back to the next vgpud.
struct GuestAsk {
  uint64_t memory_bytes = 0;  // on each device
  uint32_t weight = 0;
  uint32_t cap_permille = 0;
  uint32_t priority = 0;  // 1 + scheduler::PriorityClass
  uint32_t reserved = 0;
};

// What it may have.
struct GuestTerms {
  std::string tenant, profile;
  SharingMode mode = SharingMode::kIsolated;
  uint32_t thread_percent = 100;
  uint64_t memory_bytes = 0;  // 0: the server's default
  scheduler::Share share;
  bool exclusive = false;
  protocol::GuestLimits limits;
  uint64_t tenant_memory_bytes = 0;  // as Tenant::memory_bytes
  uint32_t tenant_guests_max = 0;
};

// What vgpud.toml says of profiles and tenants. Without tenants there is one for everybody; without
// profiles there is one, "default", whose bounds hold only for those who are not trusted.
class Policy {
 public:
  // kInvalidArgument when the names do not fit together; the text names what is wrong.
  static Result<Policy> make(std::map<std::string, Profile> profiles, std::vector<Tenant> tenants);
  Policy();

  // kInvalidArgument when a tenant has neither users, groups nor token, and there is no `network`,
  // where guests are of the tenant that their key is for; the text names it.
  Status check_ways_in(bool network) const;
  // kPermissionDenied: no tenant's, or the token is wrong. The text never has the token.
  Result<const Tenant*> identify(const PeerIdentity& peer, const std::string& token) const;
  // `profile` empty: the tenant's default. kNotFound, kPermissionDenied or kResourceExhausted say
  // what is there and what was too much.
  Result<GuestTerms> terms(const Tenant& tenant, const std::string& profile, const GuestAsk& ask,
                           bool trusted) const;

  // The share of a guest of this profile that asked for `ask` and got what the profile allows of
  // it, after an operator has set `set`. Nothing when there is no such profile.
  std::optional<scheduler::Share> share_of(const std::string& profile, const GuestAsk& ask,
                                           const GuestAsk& set, bool trusted) const;

  const std::map<std::string, Profile>& profiles() const { return profiles_; }
  const std::vector<Tenant>& tenants() const { return tenants_; }
  const Tenant* tenant(const std::string& name) const;
  // Whether some profile has another weight, cap or class than others have by themselves.
  bool has_shares() const;
  // Whether some profile has this mode.
  bool has_mode(SharingMode mode) const;
  // Whether it has tenants of its own.
  bool divides() const { return divides_; }

 private:
  std::map<std::string, Profile> profiles_;
  std::vector<Tenant> tenants_;
  bool divides_ = false;
  bool open_ = false;  // the one profile bounds only those who are not trusted
};

const char* mode_name(SharingMode mode);
std::optional<SharingMode> mode_named(const std::string& name);
const char* priority_name(scheduler::PriorityClass priority);
// False: no class has this name.
bool parse_priority(const std::string& name, scheduler::PriorityClass* priority);
// Letters, digits, '-', '_' and '.', 1 to kPolicyNameBytesMax of them.
bool policy_name_ok(const std::string& name);
// Compares without telling by its time where two differ.
bool same_secret(const std::string& one, const std::string& other);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_POLICY_H_
