// Finding out which servers there are, attaching to them, and numbering their devices.
// SPDX-License-Identifier: Apache-2.0
#include "router/servers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <tuple>

#include "api/visible_devices.h"
#include "base/env.h"
#include "base/spin_mutex.h"

namespace vgpu::router {

std::atomic<Servers*> Servers::attached_{nullptr};

namespace {

SpinMutex g_mutex;
bool g_load_tried = false;  // under g_mutex, as the rest
Servers* g_loaded = nullptr;
bool g_attach_tried = false;
CUresult g_refusal = CUDA_SUCCESS;

// Beside this library as it is built and installed: router/libcuda.so.1, guest/libcuda.so.1.
std::string guest_library() {
  if (const auto given = env_text("VGPU_GUEST_LIBRARY")) return std::string(*given);
  Dl_info here{};
  std::string path = "router/libcuda.so.1";
  if (::dladdr(reinterpret_cast<const void*>(&guest_library), &here) != 0 &&
      here.dli_fname != nullptr)
    path = here.dli_fname;
  for (int i = 0; i < 2; ++i) {
    const size_t slash = path.rfind('/');
    path = slash == std::string::npos ? "" : path.substr(0, slash);
  }
  return (path.empty() ? "." : path) + "/guest/libcuda.so.1";
}

std::vector<std::string> addresses() {
  std::vector<std::string> found;
  std::string rest(env_text("VGPU_SERVER").value_or(""));
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    if (comma != 0) found.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  return found;
}

void forget_in_child() { g_mutex.reset_after_fork(); }

struct Candidate {
  DevicePlace place;
  std::string uuid;
  int domain = 0, bus = 0, slot = 0;
};

CUresult describe(Server& server, CUdevice local, Candidate* out) {
  out->place = {&server, local};
  CUuuid uuid{};
  if (CUresult r = server.driver.cuDeviceGetUuid_v2(&uuid, local); r != CUDA_SUCCESS) return r;
  out->uuid = device_uuid_text(reinterpret_cast<const unsigned char*>(uuid.bytes));
  const auto get = [&](int* value, CUdevice_attribute which) {
    (void)server.driver.cuDeviceGetAttribute(value, which, local);
  };
  get(&out->domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  get(&out->bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  get(&out->slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  out->domain += Servers::domain_of(server);
  return CUDA_SUCCESS;
}

}  // namespace

void say(const std::string& text) {
  const std::string line = "vgpu: " + text + "\n";
  const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  (void)written;
}

Servers* Servers::load() {
  const std::vector<std::string> list = addresses();
  if (list.empty() || list.size() > kServersMax) {
    say(list.empty() ? "VGPU_SERVER names no server"
                     : "VGPU_SERVER names more than " + std::to_string(kServersMax) + " servers");
    return nullptr;
  }
  if (env_text("VGPU_DEVICES").value_or("all") != "all") {
    say("VGPU_DEVICES is for one server; among those of several CUDA_VISIBLE_DEVICES chooses");
    return nullptr;
  }
  auto* servers = new Servers;
  for (const std::string& address : list) {
    Server& server = servers->all_.emplace_back();
    server.number = static_cast<uint32_t>(servers->all_.size() - 1);
    server.address = address;
    if (const Status status = load_copy(guest_library(), &server); !status.ok()) {
      say(status.text());
      return nullptr;
    }
  }
  ::pthread_atfork(nullptr, nullptr, forget_in_child);
  return servers;
}

Servers* Servers::loaded() {
  std::lock_guard lock(g_mutex);
  if (!g_load_tried) g_loaded = load();
  g_load_tried = true;
  return g_loaded;
}

CUresult Servers::attach() {
  Servers* servers = loaded();
  if (servers == nullptr) return CUDA_ERROR_NO_DEVICE;
  std::lock_guard lock(g_mutex);
  if (attached() != nullptr)  // in the child of a fork there is none any more
    return servers->all_.front().driver.cuInit(0);
  if (!g_attach_tried) g_refusal = servers->attach_all();
  g_attach_tried = true;
  // release: partner is the acquire in attached().
  if (g_refusal == CUDA_SUCCESS) attached_.store(servers, std::memory_order_release);
  return g_refusal;
}

// One after the other: each claims its addresses among those that the ones before have left.
CUresult Servers::attach_all() {
  for (Server& server : all_) {
    if (CUresult r = server.driver.cuInit(0); r != CUDA_SUCCESS) return r;
    if (CUresult r = server.driver.cuDeviceGetCount(&server.devices); r != CUDA_SUCCESS) return r;
    server.library->ranges(&server.ranges);
  }
  return choose_devices();
}

CUresult Servers::choose_devices() {
  std::vector<Candidate> candidates;
  for (Server& server : all_) {
    for (CUdevice local = 0; local < server.devices; ++local) {
      Candidate& candidate = candidates.emplace_back();
      if (CUresult r = describe(server, local, &candidate); r != CUDA_SUCCESS) return r;
    }
  }
  if (env_text("CUDA_DEVICE_ORDER").value_or("") == "PCI_BUS_ID") {
    std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
      return std::tie(a.domain, a.bus, a.slot) < std::tie(b.domain, b.bus, b.slot);
    });
  }
  std::vector<std::string> uuids;
  for (const Candidate& candidate : candidates) uuids.push_back(candidate.uuid);
  for (const int index : visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids))
    devices_.push_back(candidates[static_cast<size_t>(index)].place);
  return devices_.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUdevice Servers::number_of(const Server& server, CUdevice local) const {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].server == &server && devices_[i].local == local)
      return static_cast<CUdevice>(i);
  }
  return CU_DEVICE_INVALID;
}

}  // namespace vgpu::router
