// What the guests of each tenant hold together.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_TENANT_LEDGER_H_
#define VGPU_SERVER_TENANT_LEDGER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "base/status.h"

namespace vgpu::server {

// Of which tenant a guest is, and how much all of the tenant's guests may have; 0: no bound.
struct TenantBound {
  std::string name;
  uint64_t bytes_max = 0;
  uint32_t guests_max = 0;
};

// Thread-safe. Bounds are checked when something is taken; what is held already stays when they
// shrink.
class TenantLedger {
 public:
  struct Held {
    uint64_t bytes = 0;
    uint32_t guests = 0;
  };

  // A session of the tenant takes so many bytes, of all devices together. kResourceExhausted: the
  // text names what is left.
  Status take(uint64_t session, const TenantBound& bound, uint64_t bytes);
  // The session holds so many bytes from now on. Fails only when that is more than before and than
  // the bound; an unknown session is kNotFound.
  Status resize(uint64_t session, const TenantBound& bound, uint64_t bytes);
  // Without asking: a session that another server had let in.
  void adopt(uint64_t session, const std::string& tenant, uint64_t bytes);
  // An unknown session changes nothing.
  void give_back(uint64_t session);

  Held held(const std::string& tenant) const;

 private:
  struct Session {
    std::string tenant;
    uint64_t bytes = 0;
  };
  // Whether `bytes` more fit.
  Status check(const TenantBound& bound, uint64_t bytes) const;

  mutable std::mutex mutex_;
  std::map<std::string, Held> tenants_;
  std::map<uint64_t, Session> sessions_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_TENANT_LEDGER_H_
