// Handles created ahead and mapped where the guest says.
// SPDX-License-Identifier: Apache-2.0
#include "server/device_memory.h"

#include <algorithm>

namespace vgpu::server {

CUmemAllocationProp memory_properties(CUdevice device, bool shares) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  if (shares) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUresult DeviceMemory::create() {
  if (!quota_.take(kHandleBytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUmemAllocationProp properties = memory_properties(device_, shareable_);
  Handle handle{};
  if (CUresult result = driver_->cuMemCreate(&handle, kHandleBytes, &properties, 0);
      result != CUDA_SUCCESS) {
    quota_.give(kHandleBytes);
    return result;
  }
  handles_.push_back(handle);
  backed_bytes_ += kHandleBytes;
  publish_used();
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::back(uint64_t bytes) {
  if (mode_ != protocol::AllocatorMode::kReserved) return CUDA_ERROR_NOT_SUPPORTED;
  collect();
  const uint64_t ahead = backed_bytes_ - mapped_bytes_;
  if (bytes <= ahead) return CUDA_SUCCESS;
  uint64_t missing = bytes - ahead;
  if (missing > quota_.left()) return CUDA_ERROR_OUT_OF_MEMORY;
  missing = (missing + kHandleBytes - 1) / kHandleBytes * kHandleBytes;
  if (missing > quota_.left()) return CUDA_ERROR_OUT_OF_MEMORY;
  for (; missing > 0; missing -= kHandleBytes) {
    if (CUresult result = create(); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::back_more(uint64_t bytes) {
  if (mode_ != protocol::AllocatorMode::kReserved) return CUDA_ERROR_NOT_SUPPORTED;
  if (bytes > quota_.limit()) return CUDA_ERROR_OUT_OF_MEMORY;
  ahead_ = true;
  collect();
  const uint64_t left = quota_.left() / kHandleBytes * kHandleBytes;
  return back(backed_bytes_ - mapped_bytes_ + std::min(bytes, left));
}

bool DeviceMemory::back_ahead() {
  collect();
  if (mode_ != protocol::AllocatorMode::kReserved || !ahead_) return false;
  const uint64_t ahead = backed_bytes_ - mapped_bytes_;
  if (ahead >= kCreditAheadBytes / 2) return false;  // refill in large steps
  const uint64_t left = quota_.left() / kHandleBytes * kHandleBytes;
  const uint64_t before = backed_bytes_;
  (void)back(ahead + std::min(left, kCreditAheadBytes - ahead));
  return backed_bytes_ != before;
}

// Whole handles inside the range.
bool DeviceMemory::in_range(uint64_t address, uint64_t bytes) const {
  return bytes > 0 && bytes <= range_.bytes && address >= range_.base &&
         address - range_.base <= range_.bytes - bytes && address % kHandleBytes == 0 &&
         bytes % kHandleBytes == 0;
}

CUresult DeviceMemory::map(uint64_t address, uint64_t bytes) {
  if (mode_ != protocol::AllocatorMode::kReserved || !in_range(address, bytes) ||
      bytes > backed_bytes_ - mapped_bytes_ || !mapped_.insert(address, bytes)) {
    return CUDA_ERROR_INVALID_ADDRESS_SPACE;
  }
  mapped_bytes_ += bytes;
  if (CUresult result = map_handles(address, bytes); result != CUDA_SUCCESS) return result;
  if (CUresult result = set_access(address, bytes); result != CUDA_SUCCESS) return result;
  owned_.merge(address, bytes);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::set_access(uint64_t address, uint64_t bytes) {
  std::vector<CUmemAccessDesc> access(1 + peers_.size());
  for (size_t i = 0; i < access.size(); ++i) {
    access[i].location = memory_properties(i == 0 ? device_ : peers_[i - 1].first).location;
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return driver_->cuMemSetAccess(address, bytes, access.data(), access.size());
}

CUresult DeviceMemory::share(CUdevice peer, bool on) {
  if (mode_ != protocol::AllocatorMode::kReserved) return CUDA_SUCCESS;
  auto found = std::find_if(peers_.begin(), peers_.end(),
                            [peer](const auto& each) { return each.first == peer; });
  const bool known = found != peers_.end();
  if (on && known) return ++found->second, CUDA_SUCCESS;
  if (!on && (!known || --found->second != 0)) return CUDA_SUCCESS;
  CUmemAccessDesc access{};
  access.location = memory_properties(peer).location;
  access.flags = on ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUresult result = CUDA_SUCCESS;
  const auto set_all = [&] {
    mapped_.for_each([&](uint64_t address, uint64_t bytes) {
      const CUresult each = driver_->cuMemSetAccess(address, bytes, &access, 1);
      if (result == CUDA_SUCCESS) result = each;
    });
  };
  set_all();
  if (on && result == CUDA_SUCCESS) peers_.emplace_back(peer, 1);
  if (on && result != CUDA_SUCCESS) {
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;  // all of it or none
    set_all();
  }
  if (!on) peers_.erase(found);
  return result;
}

CUresult DeviceMemory::map_handles(uint64_t address, uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += kHandleBytes) {
    const Handle handle = handles_.back();
    if (CUresult result = driver_->cuMemMap(address + done, kHandleBytes, 0, handle, 0);
        result != CUDA_SUCCESS) {
      return result;
    }
    handles_.pop_back();
    (void)driver_->cuMemRelease(handle);  // the mapping keeps the memory
  }
  return CUDA_SUCCESS;
}

Charges DeviceMemory::share_charges(uint64_t address, uint64_t bytes) {
  Charges charges;
  for (const uint64_t end = address + bytes; address != end; address += kHandleBytes) {
    std::shared_ptr<Charge>& charge = shared_[address];
    if (charge == nullptr) charge = std::make_shared<Charge>(given_back_, kHandleBytes);
    charges.push_back(charge);
  }
  return charges;
}

bool DeviceMemory::release(uint64_t address, uint64_t bytes, Charges* shared) {
  if (bytes == 0 || address % kHandleBytes != 0 || bytes % kHandleBytes != 0 ||
      !mapped_.contains(address, bytes)) {
    return false;
  }
  mapped_.erase(address, bytes);
  owned_.erase(address, bytes);
  const auto first = shared_.lower_bound(address), last = shared_.lower_bound(address + bytes);
  for (auto each = first; each != last; ++each) shared->push_back(std::move(each->second));
  shared_.erase(first, last);
  return true;
}

bool DeviceMemory::return_credit(uint64_t bytes) {
  if (mode_ != protocol::AllocatorMode::kReserved || bytes % kHandleBytes != 0 ||
      bytes > backed_bytes_ - mapped_bytes_) {
    return false;
  }
  ahead_ = false;
  mapped_bytes_ += bytes;
  quota_.give(bytes);
  for (; bytes != 0; bytes -= kHandleBytes) {
    (void)driver_->cuMemRelease(handles_.back());
    handles_.pop_back();
  }
  publish_used();
  return true;
}

CUresult DeviceMemory::allocate(uint64_t bytes, CUdeviceptr* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  collect();
  if (!quota_.take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (CUresult result = driver_->cuMemAlloc_v2(address, bytes); result != CUDA_SUCCESS) {
    quota_.give(bytes);
    return result;
  }
  allocations_[*address] = bytes;
  owned_.merge(*address, bytes);
  publish_used();
  return CUDA_SUCCESS;
}

bool DeviceMemory::disown(CUdeviceptr address, uint64_t* bytes) {
  auto it = allocations_.find(address);
  if (it == allocations_.end()) return false;
  *bytes = it->second;
  owned_.erase(address, it->second);
  allocations_.erase(it);
  return true;
}

void DeviceMemory::collect() {
  // relaxed: only whether to look; it is asked for again.
  if (given_back_->load(std::memory_order_relaxed) == 0) return;
  // acquire: partner is give_back(), behind the driver's free.
  quota_.give(given_back_->exchange(0, std::memory_order_acquire));
  publish_used();
}

bool DeviceMemory::charge(uint64_t bytes) {
  collect();
  if (!quota_.take(bytes)) {
    if (figures_ != nullptr) figures_->refused_allocation();
    return false;
  }
  publish_used();
  return true;
}

std::shared_ptr<Charge> DeviceMemory::charge_shared(uint64_t bytes) {
  return charge(bytes) ? std::make_shared<Charge>(given_back_, bytes) : nullptr;
}

void DeviceMemory::discharge(uint64_t bytes) {
  quota_.give(bytes);
  publish_used();
}

void DeviceMemory::release_all() {
  if (mode_ == protocol::AllocatorMode::kReserved) {
    mapped_.for_each(
        [this](uint64_t address, uint64_t bytes) { (void)driver_->cuMemUnmap(address, bytes); });
  }
  mapped_ = {};
  for (Handle handle : handles_) (void)driver_->cuMemRelease(handle);
  for (const auto& [address, bytes] : allocations_) (void)driver_->cuMemFree_v2(address);
  handles_.clear();
  allocations_.clear();
}

void DeviceMemory::publish_used() {
  if (used_ == nullptr) return;
  std::lock_guard lock(publishing_);  // who comes last has seen what the others did
  const uint64_t used = quota_.used(), given = given_back_->load(std::memory_order_acquire);
  used_->store(used - std::min(used, given), std::memory_order_relaxed);
}

}  // namespace vgpu::server
