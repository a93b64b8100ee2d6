// Who was granted how much of a device's memory. Nothing is ever sold twice.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GRANTS_H_
#define VGPU_SERVER_GRANTS_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "server/tenant_ledger.h"
#include "server/worker_link.h"

namespace vgpu::server {

inline constexpr uint64_t kGrantStepBytes = 2u << 20;  // grants are rounded up to whole handles

// Thread-safe. The sum of all grants stays within the capacity, but for guests adopted from an
// earlier server, which hold theirs already.
class Grants {
 public:
  // Capacity = the device's memory less the headroom. The default is what a guest gets that names
  // no size; 0 = a quarter of the capacity.
  void set_capacity(uint64_t device_bytes, uint64_t headroom_bytes, uint64_t default_bytes);

  // Grants `wanted_bytes` (0 = the default) to a session and says how much that is.
  // kResourceExhausted: the text names what is free. kAlreadyExists: a session has one grant.
  Result<uint64_t> take(uint64_t session, uint64_t wanted_bytes);
  // All of a device that nobody has anything of.
  Result<uint64_t> take_whole(uint64_t session);
  // The session's grant becomes `bytes`. kResourceExhausted when that is more than before and than
  // is free: then nothing has changed. kNotFound: it has none.
  Status resize(uint64_t session, uint64_t bytes);
  // A session that another server had granted. False, and nothing changes, when the session is
  // known already or nobody can have that many bytes.
  bool adopt(uint64_t session, uint64_t bytes);
  // The session is over. An unknown one changes nothing.
  void give_back(uint64_t session);

  // What a session would get that names `wanted_bytes`, as long as there is so much.
  uint64_t size_of_grant(uint64_t wanted_bytes) const;

  uint64_t capacity() const;
  uint64_t granted() const;
  uint64_t free_bytes() const;

 private:
  uint64_t free_locked() const { return granted_ < capacity_ ? capacity_ - granted_ : 0; }

  mutable std::mutex mutex_;
  uint64_t capacity_ = 0;
  uint64_t default_ = 0;
  uint64_t granted_ = 0;
  std::map<uint64_t, uint64_t> by_session_;
};

// What a guest is to have of each of its devices.
struct GrantAsk {
  uint64_t bytes = 0;  // 0: each device's default
  bool exclusive = false;
  TenantBound tenant = {};
};

// The ledgers of all devices that are served, by their places. Thread-safe.
class Ledgers {
 public:
  Grants& of(uint32_t device) { return devices_[device]; }
  const Grants& of(uint32_t device) const { return devices_[device]; }

  // Grants what is asked for on every one of `devices`, or nothing at all. As Grants::take and
  // TenantLedger::take; the text names the device when there are several.
  Result<WorkerGrants> take(uint64_t session, const std::vector<uint32_t>& devices,
                            const GrantAsk& ask);
  // As Grants::adopt, and false for grants of devices that cannot be or are named twice.
  bool adopt(uint64_t session, const WorkerGrants& grants, const std::string& tenant = "");
  // The session's grants become these, of the same devices. All or nothing; as Grants::resize.
  Status resize(uint64_t session, const WorkerGrants& now, const WorkerGrants& wanted,
                const TenantBound& tenant);
  TenantLedger::Held held(const std::string& tenant) const { return tenants_.held(tenant); }
  void give_back(uint64_t session);
  // The places of the `wanted` of the first `count` devices with the most memory left, in order of
  // places. 0: none.
  std::vector<uint32_t> emptiest(uint32_t count, uint32_t wanted) const;

 private:
  std::array<Grants, protocol::kDevicesMax> devices_;
  TenantLedger tenants_;
};

// Bytes on all devices together.
uint64_t sum_of(const WorkerGrants& grants);

// "512 MiB" and so on, for messages.
std::string size_text(uint64_t bytes);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GRANTS_H_
