// Lists of devices, applied one after the other.
// SPDX-License-Identifier: Apache-2.0
#include "server/device_choice.h"

#include <algorithm>
#include <cstdio>

#include "api/visible_devices.h"

namespace vgpu::server {
namespace {

// A number that sorts as the address does; what is no address comes last.
uint64_t pci_place(const std::string& text) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(text.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
    return UINT64_MAX;
  return uint64_t{domain} << 32 | uint64_t{bus & 0xff} << 16 | uint64_t{device & 0xff} << 8 |
         (function & 0xff);
}

// Those of `from` that the list names, in its order.
std::vector<uint32_t> pick(std::span<const DeviceIdentity> devices,
                           const std::vector<uint32_t>& from, const std::string& list) {
  std::vector<std::string> uuids;
  for (const uint32_t each : from) uuids.push_back(device_uuid_text(devices[each].uuid.data()));
  std::vector<uint32_t> picked;
  for (const int place : visible_devices(list.c_str(), uuids))
    picked.push_back(from[static_cast<size_t>(place)]);
  return picked;
}

std::vector<uint32_t> all_of(size_t count) {
  std::vector<uint32_t> all(count);
  for (uint32_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

Status none(const char* whose, const std::string& list, size_t of) {
  return Status(StatusCode::kNotFound, std::string(whose) + " '" + list + "' names none of the " +
                                           std::to_string(of) + " devices");
}

}  // namespace

Result<std::vector<uint32_t>> list_devices(std::span<const DeviceIdentity> devices,
                                           const std::string& list) {
  std::vector<uint32_t> listed = all_of(devices.size());
  if (!list.empty()) listed = pick(devices, listed, list);
  if (listed.empty()) return none("the server's list of devices", list, devices.size());
  return listed;
}

Result<std::vector<uint32_t>> choose_devices(std::span<const DeviceIdentity> served,
                                             const std::vector<uint32_t>& offered,
                                             const protocol::Hello& hello) {
  std::vector<uint32_t> chosen = offered.empty() ? all_of(served.size()) : offered;
  if (!hello.devices.empty()) {
    const size_t before = chosen.size();
    chosen = pick(served, chosen, hello.devices);
    if (chosen.empty()) return none("VGPU_DEVICES", hello.devices, before);
  }
  if ((hello.flags & protocol::kHelloPciOrder) != 0) {
    std::stable_sort(chosen.begin(), chosen.end(), [&](uint32_t a, uint32_t b) {
      return pci_place(served[a].pci_bus_id) < pci_place(served[b].pci_bus_id);
    });
  }
  if ((hello.flags & protocol::kHelloDevicesListed) != 0) {
    const size_t before = chosen.size();
    chosen = pick(served, chosen, hello.visible_devices);
    if (chosen.empty()) return none("CUDA_VISIBLE_DEVICES", hello.visible_devices, before);
  }
  return chosen;
}

}  // namespace vgpu::server
