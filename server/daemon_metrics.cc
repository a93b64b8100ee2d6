// vgpud's state as one reading for the metrics endpoint.
// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>

#include "api/visible_devices.h"
#include "base/clock.h"
#include "op.h"
#include "server/attach.h"
#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

// Seconds since 1970 of a moment of the monotonic clock.
double wall_time(uint64_t moment_ms) {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const double wall = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  return wall - (static_cast<double>(monotonic_ns()) / 1e9 - static_cast<double>(moment_ms) / 1e3);
}

}  // namespace

Status Daemon::start_metrics() {
  if (options_.metrics.empty()) return ok_status();
  Result<std::unique_ptr<MetricsEndpoint>> endpoint = MetricsEndpoint::start(options_.metrics);
  if (!endpoint.ok()) return endpoint.status();
  metrics_ = std::move(endpoint).value();
  log(Level::kInfo, "metrics at http://%s/metrics", options_.metrics.c_str());
  return loop_.add(metrics_->wakeup_fd(), [this] { metrics_->publish(reading()); });
}

// As the configuration names it; where that has no tenants, the key's or the user.
std::string Daemon::tenant_of(const Worker& worker) const {
  if (options_.policy.divides() || worker.guest_uid == kRemoteUser) return worker.tenant;
  return "uid-" + std::to_string(worker.guest_uid);
}

GuestReading Daemon::reading_of(const Worker& worker) {
  const auto* page = reinterpret_cast<const WorkerPage*>(worker.page.data());
  GuestReading guest;
  guest.session = worker.session;
  guest.pid = worker.guest_pid;
  guest.vgpu = worker.label;
  guest.tenant = tenant_of(worker);
  guest.user = worker.guest_uid == kRemoteUser ? "remote" : std::to_string(worker.guest_uid);
  guest.executable = worker.executable;
  guest.mode = mode_name(worker.mode);
  guest.share = worker.share;
  guest.started = wall_time(worker.started_ms);
  for (uint32_t i = 0; i < std::min<uint32_t>(worker.grants.count, protocol::kDevicesMax); ++i) {
    if (worker.grants.device[i] >= identities_.size()) continue;
    // relaxed: a figure for people.
    guest.memory.push_back({worker.grants.device[i], worker.grants.bytes[i],
                            page->used_bytes[i].load(std::memory_order_relaxed)});
  }
  guest.used = accounts_.read(worker.session, guest.tenant, read_used(*page));
  return guest;
}

Reading Daemon::reading() {
  Reading reading;
  reading.version = kServerVersion;
  reading.started = wall_time(started_ms_);
  reading.waiting_guests = waiting_count();
  reading.attached = attached_;
  reading.refused = refused_;
  reading.failed_workers = failed_workers_;
  if (devices_known_) {
    reading.driver = driver_kind_name(static_cast<DriverKind>(ready_.driver_kind));
    reading.driver_version = ready_.driver_version;
  }
  for (uint32_t i = 0; i < identities_.size(); ++i) {
    DeviceReading& device = reading.devices.emplace_back();
    device.uuid = device_uuid_text(ready_.devices[i].uuid);
    device.pci_bus_id = identities_[i].pci_bus_id;
    device.name = get_text(ready_.devices[i].name);
    device.memory_bytes = ready_.devices[i].memory_bytes;
    device.grantable_bytes = ledgers_.of(i).capacity();
    device.granted_bytes = ledgers_.of(i).granted();
  }
  std::vector<RateSample> samples;
  for (const auto& [pid, worker] : workers_) {
    if (worker->session == 0) {
      reading.ready_workers += worker->ready;
      continue;
    }
    const GuestReading& guest = reading.guests.emplace_back(reading_of(*worker));
    RateSample& sample = samples.emplace_back();
    sample.session = guest.session;
    sample.weight = guest.share.weight;
    sample.compute_seconds = guest.used.engine_seconds[0];
    sample.wait_seconds = guest.used.wait_seconds;
    reading.all += guest.used;
    for (const GuestReading::Memory& part : guest.memory) {
      sample.devices.push_back(part.device);
      reading.devices[part.device].used_bytes += part.used_bytes;
    }
  }
  rates_.add(monotonic_ns(), std::move(samples));
  for (uint32_t i = 0; i < reading.devices.size(); ++i) reading.devices[i].busy = rates_.busy(i);
  reading.jain = rates_.jain();
  reading.all += accounts_.ended();
  reading.tenants = accounts_.tenants();
  return reading;
}

}  // namespace vgpu::server
