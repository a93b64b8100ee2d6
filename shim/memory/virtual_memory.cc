// Reservations, physical memory and mappings of the application.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/virtual_memory.h"

#include <algorithm>
#include <iterator>

#include "api/vmm/rules.h"

namespace vgpu::shim {

using vmm::kGranularity;
using vmm::whole_granules;

CUresult VirtualMemory::reserve(uint64_t bytes, uint64_t alignment, uint64_t hint,
                                uint64_t* address) {
  if (bytes > bytes_ || alignment > bytes_) return CUDA_ERROR_OUT_OF_MEMORY;
  alignment = std::max(alignment, kGranularity);
  const uint64_t held = whole_granules(bytes);
  std::lock_guard lock(mutex_);
  const bool there = hint != 0 && hint % alignment == 0 && inside(hint) && free_.take(hint, held);
  const uint64_t found = there ? hint : free_.take_anywhere(held, alignment);
  if (found == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  reservations_[found] = bytes;
  *address = found;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::unreserve(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return CUDA_ERROR_INVALID_VALUE;
  reservations_.erase(found);
  free_.give(address, whole_granules(bytes));
  return CUDA_SUCCESS;
}

uint64_t VirtualMemory::add(uint64_t bytes, uint64_t handle_types, int device,
                            uint64_t export_name) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<Counted> counted;
  if (export_name != 0) {
    physical_.for_each([&](uint64_t, const Physical& each) {
      if (each.export_name == export_name) counted = each.counted;
    });
  }
  if (counted == nullptr) counted = std::make_shared<Counted>(created_on(device), bytes);
  const uint64_t handle = physical_.insert();
  if (handle == 0) return 0;
  Physical* physical = physical_.find(handle);
  physical->bytes = bytes;
  physical->handle_types = handle_types;
  physical->device = device;
  physical->export_name = export_name;
  physical->counted = std::move(counted);
  return handle;
}

void VirtualMemory::set_export_name(uint64_t handle, uint64_t export_name) {
  std::lock_guard lock(mutex_);
  if (Physical* physical = physical_.find(handle); physical != nullptr)
    physical->export_name = export_name;
}

void VirtualMemory::forget(uint64_t handle) {
  std::lock_guard lock(mutex_);
  drop(handle);
}

void VirtualMemory::drop(uint64_t handle) {
  physical_.find(handle)->counted = nullptr;  // what a name stood for may stay in its place
  physical_.remove(handle);
}

bool VirtualMemory::drop_if_unused(uint64_t handle) {
  const Physical* physical = physical_.find(handle);
  if (physical->references != 0 || physical->mappings != 0) return false;
  drop(handle);
  return true;
}

CUresult VirtualMemory::release(uint64_t handle, bool* gone) {
  std::lock_guard lock(mutex_);
  Physical* physical = physical_.find(handle);
  if (physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
  --physical->references;
  *gone = drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::retain(uint64_t address, uint64_t* handle) {
  std::lock_guard lock(mutex_);
  const auto it = at(address);
  if (it == mappings_.end()) return CUDA_ERROR_INVALID_VALUE;
  ++physical_.find(it->second.handle)->references;
  *handle = it->second.handle;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::handle_types(uint64_t handle, uint64_t* types, int* device) {
  std::lock_guard lock(mutex_);
  const Physical* physical = physical_.find(handle);
  if (physical == nullptr || physical->references == 0) return CUDA_ERROR_INVALID_VALUE;
  *types = physical->handle_types;
  if (device != nullptr) *device = physical->device;
  return CUDA_SUCCESS;
}

VirtualMemory::Mappings::iterator VirtualMemory::at(uint64_t address) {
  auto it = mappings_.upper_bound(address);
  if (it == mappings_.begin()) return mappings_.end();
  --it;
  return address - it->first < it->second.bytes ? it : mappings_.end();
}

CUresult VirtualMemory::map(uint64_t address, uint64_t bytes, uint64_t handle) {
  std::lock_guard lock(mutex_);
  Physical* physical = physical_.find(handle);
  if (physical == nullptr || physical->references == 0 || physical->bytes != bytes ||
      address % kGranularity != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto reserved = reservations_.upper_bound(address);
  if (reserved == reservations_.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [base, size] = *std::prev(reserved);
  if (address - base > size || bytes > size - (address - base)) return CUDA_ERROR_INVALID_VALUE;
  const auto next = mappings_.lower_bound(address);
  if ((next != mappings_.end() && next->first < address + bytes) ||
      at(address) != mappings_.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++physical->mappings;
  mappings_[address] = {bytes, handle, {}};
  return CUDA_SUCCESS;
}

bool VirtualMemory::exactly_mapped(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t end = address + bytes;
  if (bytes == 0 || end < address) return false;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first == address; ++it) {
    address += it->second.bytes;
    if (address >= end) return address == end;
  }
  return false;
}

std::vector<uint64_t> VirtualMemory::unmap(uint64_t address, uint64_t bytes) {
  std::vector<uint64_t> gone;
  std::lock_guard lock(mutex_);
  auto it = mappings_.lower_bound(address);
  while (it != mappings_.end() && it->first < address + bytes) {
    const uint64_t handle = it->second.handle;
    it = mappings_.erase(it);
    --physical_.find(handle)->mappings;
    if (drop_if_unused(handle)) gone.push_back(handle);
  }
  return gone;
}

void VirtualMemory::set_access(uint64_t address, uint64_t bytes, CUmemAccess_flags flags,
                               int device) {
  std::lock_guard lock(mutex_);
  for (auto it = mappings_.lower_bound(address);
       it != mappings_.end() && it->first < address + bytes; ++it) {
    it->second.flags[static_cast<size_t>(device)] = flags;
  }
}

void VirtualMemory::close(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  for (auto it = mappings_.lower_bound(address);
       it != mappings_.end() && it->first < address + bytes; ++it) {
    it->second.flags = {};
  }
}

bool VirtualMemory::look(uint64_t address, VirtualPlace* place) {
  if (!inside(address)) return false;
  std::lock_guard lock(mutex_);
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return false;
  const auto& [base, size] = *std::prev(next);
  if (address - base >= size) return false;
  *place = {};
  place->reserved_base = base;
  place->reserved_bytes = size;
  const auto it = at(address);
  if (it == mappings_.end()) return true;
  place->base = it->first;
  place->bytes = it->second.bytes;
  place->flags = it->second.flags;
  place->handle = it->second.handle;
  place->handle_types = physical_.find(it->second.handle)->handle_types;
  place->device = physical_.find(it->second.handle)->device;
  return true;
}

// The devices that may read and write.
static uint32_t writers(const DeviceAccess& flags) {
  uint32_t mask = 0;
  for (size_t i = 0; i < flags.size(); ++i)
    mask |= flags[i] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? 1U << i : 0;
  return mask;
}

bool VirtualMemory::find(uint64_t address, Found* found) {
  std::lock_guard lock(mutex_);
  auto it = at(address);
  if (it == mappings_.end()) {
    const auto peer = peers_.upper_bound(address);
    if (peer == peers_.begin()) return false;
    const auto& [visible, memory] = *std::prev(peer);
    *found = {visible, memory.size, visible, memory.context, memory.device};
    return address - visible < memory.size;
  }
  uint32_t may = writers(it->second.flags);
  if (may == 0) return false;
  *found = {it->first, 0, it->second.handle, 0, physical_.find(it->second.handle)->device};
  uint64_t end = it->first;
  for (; it != mappings_.end() && it->first == end; ++it) {
    may &= writers(it->second.flags);
    if (may == 0) break;  // no device may use both
    end += it->second.bytes;
  }
  found->bytes = end - found->address;
  return true;
}

uint64_t VirtualMemory::reserve_for_peer(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  return free_.take_anywhere(bytes, kGranularity);
}

void VirtualMemory::give_up_for_peer(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_.give(address, bytes);
}

void VirtualMemory::add_peer(uint64_t address, uint64_t bytes, uint64_t offset, uint64_t size,
                             uint64_t context, int device) {
  std::lock_guard lock(mutex_);
  peers_[address + offset] = {address, bytes, size, context, device};
  created_on(device) += bytes;
}

void VirtualMemory::hide_peer(uint64_t visible) {
  std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(visible); found != peers_.end()) found->second.size = 0;
}

bool VirtualMemory::remove_peer(uint64_t visible, uint64_t* address, uint64_t* bytes) {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(visible);
  if (found == peers_.end()) return false;
  *address = found->second.address;
  *bytes = found->second.bytes;
  created_on(found->second.device) -= found->second.bytes;
  peers_.erase(found);
  return true;
}

std::vector<uint64_t> VirtualMemory::peers_of(uint64_t context) {
  std::vector<uint64_t> visible;
  std::lock_guard lock(mutex_);
  for (const auto& [address, peer] : peers_) {
    if (peer.context == context) visible.push_back(address);
  }
  return visible;
}

}  // namespace vgpu::shim
