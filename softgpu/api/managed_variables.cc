// Managed variables of an image.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "softgpu/api/driver.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kAlignment = 256;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

bool ManagedVariables::make(Device& device, const Program& program,
                            std::shared_ptr<ManagedVariables>* out) {
  uint64_t total = 0;
  for (const GlobalVar& each : program.globals()) {
    if (!each.managed || each.external) continue;
    total = round_up(total, std::max<uint64_t>(each.align, kAlignment)) +
            std::max<uint64_t>(each.bytes, 1);
  }
  if (total == 0) return true;
  const uint64_t address = device.memory().allocate(total, MemoryKind::kManagedModule, 0);
  if (address == 0) return false;
  Driver::instance().managed.add(address, total);
  out->reset(new ManagedVariables(device, address));
  uint64_t end = 0;
  for (const GlobalVar& each : program.globals()) {
    if (!each.managed || each.external) continue;
    const uint64_t offset = round_up(end, std::max<uint64_t>(each.align, kAlignment));
    end = offset + std::max<uint64_t>(each.bytes, 1);
    (*out)->variables_[each.name] = {address + offset, each.bytes};
    std::copy_n(each.init.data(), std::min<uint64_t>(each.init.size(), each.bytes),
                reinterpret_cast<uint8_t*>(address + offset));
  }
  return true;
}

ManagedVariables::~ManagedVariables() {
  Driver::instance().managed.remove(address_);
  device_.memory().free(address_);
}

std::pair<uint64_t, uint64_t> ManagedVariables::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::pair<uint64_t, uint64_t>{0, 0} : found->second;
}

}  // namespace vgpu::softgpu
