// The ledgers of device memory.
// SPDX-License-Identifier: Apache-2.0
#include "server/grants.h"

#include <algorithm>
#include <cstdio>

#include "protocol/limits.h"

namespace vgpu::server {

std::string size_text(uint64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), value == static_cast<uint64_t>(value) ? "%.0f %s" : "%.1f %s",
                value, units[unit]);
  return text;
}

namespace {

uint64_t whole_steps(uint64_t bytes) {
  return (bytes + kGrantStepBytes - 1) / kGrantStepBytes * kGrantStepBytes;
}

}  // namespace

void Grants::set_capacity(uint64_t device_bytes, uint64_t headroom_bytes, uint64_t default_bytes) {
  std::lock_guard lock(mutex_);
  capacity_ = device_bytes - std::min(device_bytes, headroom_bytes);
  default_ = default_bytes != 0 ? default_bytes : capacity_ / 4;
  default_ = std::max(default_ / kGrantStepBytes * kGrantStepBytes, kGrantStepBytes);
}

Result<uint64_t> Grants::take_whole(uint64_t session) {
  std::lock_guard lock(mutex_);
  if (by_session_.count(session) != 0) {
    return Status(StatusCode::kAlreadyExists, "the session has its grant");
  }
  const uint64_t whole = capacity_ / kGrantStepBytes * kGrantStepBytes;
  if (granted_ != 0 || whole == 0) {
    return Status(StatusCode::kResourceExhausted, "the whole device was asked for, others have " +
                                                      size_text(granted_) + " of its " +
                                                      size_text(capacity_));
  }
  granted_ = whole;
  by_session_[session] = whole;
  return whole;
}

Status Grants::resize(uint64_t session, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = by_session_.find(session);
  if (found == by_session_.end()) return Status(StatusCode::kNotFound, "no such session");
  uint64_t& mine = found->second;
  if (bytes > mine && bytes - mine > free_locked()) {
    return Status(StatusCode::kResourceExhausted,
                  size_text(bytes - mine) + " more were asked for, " + size_text(free_locked()) +
                      " of " + size_text(capacity_) + " are free");
  }
  granted_ = granted_ - mine + bytes;
  mine = bytes;
  return ok_status();
}

Result<uint64_t> Grants::take(uint64_t session, uint64_t wanted_bytes) {
  std::lock_guard lock(mutex_);
  if (by_session_.count(session) != 0) {
    return Status(StatusCode::kAlreadyExists, "the session has its grant");
  }
  const uint64_t wanted = wanted_bytes != 0 ? wanted_bytes : default_;
  const uint64_t room = free_locked() / kGrantStepBytes * kGrantStepBytes;
  if (wanted > room) {
    return Status(StatusCode::kResourceExhausted,
                  size_text(wanted) + " of device memory " +
                      (wanted_bytes != 0 ? "were asked for" : "are the default grant") + ", " +
                      size_text(room) + " of " + size_text(capacity_) + " are free");
  }
  const uint64_t granted = whole_steps(wanted);
  granted_ += granted;
  by_session_[session] = granted;
  return granted;
}

bool Grants::adopt(uint64_t session, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t granted = 0;
  if (by_session_.count(session) != 0 || bytes > protocol::kMemoryAskMax ||
      __builtin_add_overflow(granted_, bytes, &granted)) {
    return false;
  }
  by_session_[session] = bytes;
  granted_ = granted;
  return true;
}

void Grants::give_back(uint64_t session) {
  std::lock_guard lock(mutex_);
  auto it = by_session_.find(session);
  if (it == by_session_.end()) return;
  granted_ -= it->second;
  by_session_.erase(it);
}

uint64_t Grants::size_of_grant(uint64_t wanted_bytes) const {
  std::lock_guard lock(mutex_);
  return whole_steps(std::min(wanted_bytes != 0 ? wanted_bytes : default_, capacity_));
}

uint64_t Grants::capacity() const {
  std::lock_guard lock(mutex_);
  return capacity_;
}

uint64_t Grants::granted() const {
  std::lock_guard lock(mutex_);
  return granted_;
}

uint64_t Grants::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_locked();
}

Result<WorkerGrants> Ledgers::take(uint64_t session, const std::vector<uint32_t>& devices,
                                   const GrantAsk& ask) {
  WorkerGrants grants;
  uint64_t sum = 0;
  for (const uint32_t device : devices) {
    if (device >= devices_.size()) break;  // said below
    const uint64_t whole = devices_[device].capacity() / kGrantStepBytes * kGrantStepBytes;
    if (__builtin_add_overflow(
            sum, ask.exclusive ? whole : devices_[device].size_of_grant(ask.bytes), &sum)) {
      sum = UINT64_MAX;
    }
  }
  VGPU_RETURN_IF_ERROR(tenants_.take(session, ask.tenant, sum));
  for (const uint32_t device : devices) {
    if (device >= devices_.size() || grants.count == protocol::kDevicesMax) {
      give_back(session);
      return Status(StatusCode::kInvalidArgument, "no such device");
    }
    const Result<uint64_t> granted = ask.exclusive ? devices_[device].take_whole(session)
                                                   : devices_[device].take(session, ask.bytes);
    if (!granted.ok()) {
      give_back(session);
      const Status why = granted.status();
      return devices.size() == 1
                 ? why
                 : Status(why.code(), "device " + std::to_string(device) + ": " + why.text());
    }
    grants.device[grants.count] = device;
    grants.bytes[grants.count++] = *granted;
  }
  return grants;
}

bool Ledgers::adopt(uint64_t session, const WorkerGrants& grants, const std::string& tenant) {
  bool good = grants.count != 0 && grants.count <= protocol::kDevicesMax;
  for (uint32_t i = 0; good && i < grants.count; ++i) {
    good = grants.device[i] < devices_.size() &&
           devices_[grants.device[i]].adopt(session, grants.bytes[i]);
    if (good) continue;
    // A session that was known before keeps what it has.
    for (uint32_t done = 0; done < i; ++done) devices_[grants.device[done]].give_back(session);
  }
  if (good) tenants_.adopt(session, tenant, sum_of(grants));
  return good;
}

Status Ledgers::resize(uint64_t session, const WorkerGrants& now, const WorkerGrants& wanted,
                       const TenantBound& tenant) {
  // First everything that grows, then what shrinks: another session takes at once what is given
  // back, so that a refusal must never have to take it again.
  const uint64_t before = sum_of(now);
  const uint64_t after = sum_of(wanted);
  VGPU_RETURN_IF_ERROR(tenants_.resize(session, tenant, std::max(before, after)));
  for (uint32_t i = 0; i < now.count; ++i) {
    Status grown = devices_[now.device[i]].resize(session, std::max(now.bytes[i], wanted.bytes[i]));
    if (grown.ok()) continue;
    for (uint32_t done = 0; done < i; ++done)
      (void)devices_[now.device[done]].resize(session, now.bytes[done]);
    (void)tenants_.resize(session, tenant, before);
    return Status(grown.code(), "device " + std::to_string(now.device[i]) + ": " + grown.text());
  }
  for (uint32_t i = 0; i < now.count; ++i)
    (void)devices_[now.device[i]].resize(session, wanted.bytes[i]);
  return tenants_.resize(session, tenant, after);
}

void Ledgers::give_back(uint64_t session) {
  for (Grants& each : devices_) each.give_back(session);
  tenants_.give_back(session);
}

std::vector<uint32_t> Ledgers::emptiest(uint32_t count, uint32_t wanted) const {
  std::vector<uint32_t> places;
  for (uint32_t i = 0; i < std::min<uint32_t>(count, protocol::kDevicesMax); ++i)
    places.push_back(i);
  std::stable_sort(places.begin(), places.end(), [this](uint32_t a, uint32_t b) {
    return devices_[a].free_bytes() > devices_[b].free_bytes();
  });
  places.resize(std::min<size_t>(places.size(), wanted));
  std::sort(places.begin(), places.end());
  return places;
}

uint64_t sum_of(const WorkerGrants& grants) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < std::min<uint32_t>(grants.count, protocol::kDevicesMax); ++i)
    sum += grants.bytes[i];
  return sum;
}

}  // namespace vgpu::server
