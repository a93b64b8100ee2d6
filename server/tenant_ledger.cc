// The ledger of tenants.
// SPDX-License-Identifier: Apache-2.0
#include "server/tenant_ledger.h"

#include <algorithm>

#include "server/grants.h"

namespace vgpu::server {

Status TenantLedger::check(const TenantBound& bound, uint64_t bytes) const {
  const auto found = tenants_.find(bound.name);
  const uint64_t held = found == tenants_.end() ? 0 : found->second.bytes;
  const uint64_t left = bound.bytes_max - std::min(bound.bytes_max, held);
  if (bound.bytes_max == 0 || bytes <= left) return ok_status();
  return Status(StatusCode::kResourceExhausted,
                size_text(bytes) + " of device memory were asked for, tenant '" + bound.name +
                    "' has " + size_text(left) + " of its " + size_text(bound.bytes_max) + " left");
}

Status TenantLedger::take(uint64_t session, const TenantBound& bound, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (sessions_.count(session) != 0)
    return Status(StatusCode::kAlreadyExists, "the session is of a tenant already");
  VGPU_RETURN_IF_ERROR(check(bound, bytes));
  Held& held = tenants_[bound.name];
  if (bound.guests_max != 0 && held.guests >= bound.guests_max) {
    return Status(StatusCode::kResourceExhausted, "tenant '" + bound.name + "' may have " +
                                                      std::to_string(bound.guests_max) +
                                                      " guests at once, and has them");
  }
  uint64_t sum = 0;
  if (__builtin_add_overflow(held.bytes, bytes, &sum))
    return Status(StatusCode::kResourceExhausted, "more memory than can be counted");
  held.bytes = sum;
  ++held.guests;
  sessions_[session] = {bound.name, bytes};
  return ok_status();
}

Status TenantLedger::resize(uint64_t session, const TenantBound& bound, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return Status(StatusCode::kNotFound, "no such session");
  uint64_t& mine = found->second.bytes;
  if (bytes > mine) VGPU_RETURN_IF_ERROR(check(bound, bytes - mine));
  Held& held = tenants_[found->second.tenant];
  held.bytes = held.bytes - mine + bytes;
  mine = bytes;
  return ok_status();
}

void TenantLedger::adopt(uint64_t session, const std::string& tenant, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  if (!sessions_.emplace(session, Session{tenant, bytes}).second) return;
  Held& held = tenants_[tenant];
  held.bytes += bytes;
  ++held.guests;
}

void TenantLedger::give_back(uint64_t session) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const auto tenant = tenants_.find(found->second.tenant);
  tenant->second.bytes -= found->second.bytes;
  if (--tenant->second.guests == 0) tenants_.erase(tenant);
  sessions_.erase(found);
}

TenantLedger::Held TenantLedger::held(const std::string& tenant) const {
  std::lock_guard lock(mutex_);
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Held() : found->second;
}

}  // namespace vgpu::server
