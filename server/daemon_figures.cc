// What a process may know of its own guests: the answer behind the guests' libnvidia-ml.so.1.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "op.h"
#include "server/attach.h"
#include "server/daemon.h"
#include "server/log.h"
#include "server/ownership.h"

namespace vgpu::server {
namespace {

// "580.65.06": the release of NVIDIA's kernel module.
std::string nvidia_release() {
  const UniqueFd file(::open("/sys/module/nvidia/version", O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t bytes = file.valid() ? ::read(file.get(), text, sizeof(text)) : 0;
  const std::string release(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return release.substr(0, release.find('\n'));
}

uint32_t device_count(const WorkerGrants& grants) {
  return std::min<uint32_t>(grants.count, protocol::kDevicesMax);
}

}  // namespace

// The asking process's own session. When it has none: all of its user, in its namespace of process
// ids, of this name.
std::vector<const Daemon::Worker*> Daemon::own_workers(const protocol::PeerCredentials& caller,
                                                       const std::string& label) const {
  std::vector<const Worker*> own;
  const PidView view = view_pid(caller.pid);
  for (const auto& [pid, worker] : workers_) {
    if (worker->session == 0 || worker->guest_uid != caller.uid) continue;
    if (worker->guest_pid == caller.pid) return {worker.get()};
    if (!label.empty() && worker->label != label) continue;
    if (own.size() >= protocol::kOwnGuestsMax) continue;
    if (same_space(view, view_pid(worker->guest_pid))) own.push_back(worker.get());
  }
  return own;
}

// The devices that a guest of the caller's would see, without CUDA_VISIBLE_DEVICES, which NVML
// knows nothing of.
std::vector<uint32_t> Daemon::own_devices(const std::vector<const Worker*>& own,
                                          const protocol::FiguresRequest& request) const {
  std::vector<uint32_t> devices;
  const bool spread = request.devices.empty() && options_.guest_devices != 0;
  if (!spread || own.empty()) {
    std::vector<uint32_t> offered;
    if (spread) offered = ledgers_.emptiest(ready_.device_count, options_.guest_devices);
    protocol::Hello hello;
    hello.devices = request.devices;
    Result<std::vector<uint32_t>> chosen = choose_devices(identities_, offered, hello);
    if (chosen.ok()) devices = std::move(chosen).value();
  }
  for (const Worker* worker : own) {
    for (uint32_t i = 0; i < device_count(worker->grants); ++i) {
      const uint32_t place = worker->grants.device[i];
      if (place < identities_.size() && std::count(devices.begin(), devices.end(), place) == 0)
        devices.push_back(place);
    }
  }
  return devices;
}

// What a guest of the caller's would get of a device; 0 when it would be refused.
uint64_t Daemon::memory_for(int connection, const protocol::PeerCredentials& caller,
                            const protocol::FiguresRequest& request, uint32_t place) const {
  protocol::Hello hello;
  hello.memory_bytes = request.memory_bytes;
  hello.profile = request.profile;
  hello.token = request.token;
  const Result<GuestTerms> terms = terms_of(connection, caller.pid, caller.uid, hello);
  if (!terms.ok()) return 0;
  const Grants& ledger = ledgers_.of(place);
  return terms->exclusive ? ledger.capacity() : ledger.size_of_grant(terms->memory_bytes);
}

void Daemon::figures_asked(int connection, const protocol::FiguresRequest& request) {
  const Result<protocol::PeerCredentials> caller = protocol::peer_credentials(connection);
  if (!caller.ok()) return;
  protocol::FiguresReply reply;
  reply.server_version = kServerVersion;
  reply.now_ns = monotonic_ns();
  if (!devices_known_) {
    (void)protocol::send_frame(connection, protocol::encode_figures(reply));
    return;
  }
  const auto kind = static_cast<DriverKind>(ready_.driver_kind);
  reply.driver = driver_kind_name(kind);
  reply.driver_version = ready_.driver_version;
  if (kind == DriverKind::kNvidia) reply.driver_release = nvidia_release();
  const std::vector<const Worker*> own = own_workers(*caller, request.label);
  const std::vector<uint32_t> places = own_devices(own, request);
  for (const uint32_t place : places) {
    const ServedDevice& device = ready_.devices[place];
    protocol::OwnDevice& out = reply.devices.emplace_back();
    out.name = get_text(device.name);
    out.uuid = identities_[place].uuid;
    out.pci_bus_id = identities_[place].pci_bus_id;
    out.facts.assign(std::begin(device.facts), std::end(device.facts));
  }
  for (const Worker* worker : own) {
    const auto* page = reinterpret_cast<const WorkerPage*>(worker->page.data());
    protocol::OwnGuest& guest = reply.guests.emplace_back();
    guest.session = worker->session;
    guest.caller = worker->guest_pid == caller->pid;
    guest.pid = view_pid(worker->guest_pid).inner;
    // relaxed: figures for people, here and below.
    for (const auto& engine : page->device_ns)
      guest.engine_ns.push_back(engine.load(std::memory_order_relaxed));
    for (uint32_t i = 0; i < device_count(worker->grants); ++i) {
      const auto at = std::find(places.begin(), places.end(), worker->grants.device[i]);
      if (at == places.end()) continue;
      const uint64_t granted = worker->grants.bytes[i];
      const uint64_t used = std::min(granted, page->used_bytes[i].load(std::memory_order_relaxed));
      const auto index = static_cast<size_t>(at - places.begin());
      guest.uses.push_back({static_cast<uint8_t>(index), granted, used});
      reply.devices[index].memory_bytes += granted;
      reply.devices[index].used_bytes += used;
    }
  }
  for (size_t i = 0; i < places.size(); ++i) {
    if (reply.devices[i].memory_bytes == 0)
      reply.devices[i].memory_bytes = memory_for(connection, *caller, request, places[i]);
  }
  (void)protocol::send_frame(connection, protocol::encode_figures(reply));
}

}  // namespace vgpu::server
