// Which keys a server admits, and as which tenant: lines "KEY TENANT [comment]".
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_AUTHORIZED_KEYS_H_
#define VGPU_NET_CONTROL_AUTHORIZED_KEYS_H_

#include <sys/stat.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace vgpu::net {

inline constexpr char kAuthorizedKeysFile[] = "authorized_keys";
inline constexpr size_t kTenantBytesMax = 63;
inline constexpr size_t kAuthorizedKeysMax = 10'000;  // further lines are not read

// Letters, digits, '.', '_' and '-'.
bool is_tenant(std::string_view text);

struct AuthorizedKey {
  std::string key, tenant, comment;
};

// The keys in a text. What is no line of theirs goes to `faults` with its number, and admits
// nobody.
std::vector<AuthorizedKey> parse_authorized_keys(std::string_view text,
                                                 std::vector<std::string>* faults);

// A file of them that is read again when it has changed. Not thread-safe.
class AuthorizedKeys {
 public:
  explicit AuthorizedKeys(std::string path) : path_(std::move(path)) {}

  // Looks at the file. True: the keys may be others now. A file that is gone, or that others may
  // write, admits nobody.
  bool refresh();
  // The tenant of a key; null: it is not admitted.
  const std::string* tenant_of(const std::string& key) const;
  size_t count() const { return tenants_.size(); }
  const std::string& path() const { return path_; }

 private:
  void read();

  const std::string path_;
  struct stat seen_ {};
  bool looked_ = false;
  std::map<std::string, std::string> tenants_;  // by key
};

// Changes of the file, by one at a time. authorize() replaces an earlier line of the key.
Status authorize(const std::string& path, const AuthorizedKey& entry);
// Takes out the lines whose key or tenant is `whom`. kNotFound: there is none.
Status revoke(const std::string& path, const std::string& whom, size_t* removed);

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_AUTHORIZED_KEYS_H_
