// Sparse file, first fit; freed ranges are punched out, which gives the pages back and zeroes them.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/physical_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "softgpu/exec/address_range.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kFileBytes =
    1ull << 40;  // sparse; far more than any device, so that holes do not matter
constexpr int kEmptyFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

Result<std::unique_ptr<PhysicalMemory>> PhysicalMemory::create(DeviceSegment* segment) {
  std::unique_ptr<PhysicalMemory> memory(new PhysicalMemory(segment));
  memory->file_.reset(::memfd_create("vgpu-device-memory", MFD_CLOEXEC));
  if (!memory->file_.valid()) return Status::from_errno(errno, "memfd_create");
  if (::ftruncate(memory->file_.get(), static_cast<off_t>(kFileBytes)) < 0) {
    return Status::from_errno(errno, "ftruncate of the device's memory file");
  }
  memory->free_[0] = kFileBytes;
  return memory;
}

PhysicalMemory::~PhysicalMemory() {
  for (const auto& [address, bytes] : reservations_) ::munmap(pointer(address), bytes);
}

std::optional<uint64_t> PhysicalMemory::allocate(uint64_t bytes) {
  if (!segment_->reserve(bytes)) return std::nullopt;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto fit = std::find_if(free_.begin(), free_.end(),
                                [bytes](const auto& hole) { return hole.second >= bytes; });
  if (fit == free_.end()) {
    segment_->release(bytes);
    return std::nullopt;
  }
  const auto [offset, hole] = *fit;
  free_.erase(fit);
  if (hole > bytes) free_[offset + bytes] = hole - bytes;
  allocations_[offset] = {bytes, 1};
  return offset;
}

void PhysicalMemory::release(uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  release_locked(offset);
}

void PhysicalMemory::release_locked(uint64_t offset) {
  const auto found = allocations_.find(offset);
  if (found == allocations_.end() || --found->second.references != 0) return;
  uint64_t bytes = found->second.bytes;
  allocations_.erase(found);
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  segment_->release(bytes);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) {
    std::prev(next)->second += bytes;
    return;
  }
  free_[offset] = bytes;
}

uint64_t PhysicalMemory::bytes_of(uint64_t offset) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(offset);
  return found == allocations_.end() ? 0 : found->second.bytes;
}

uint64_t PhysicalMemory::reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint) {
  alignment = std::max(alignment, kGranularity);
  uint64_t address = hint != 0 && hint % alignment == 0 ? claim_addresses(hint, bytes) : 0;
  if (address == 0) {
    const uint64_t wide = claim_addresses(0, bytes + alignment);
    if (wide == 0) return 0;
    address = (wide + alignment - 1) / alignment * alignment;
    if (address != wide) ::munmap(pointer(wide), address - wide);
    const uint64_t tail = wide + alignment - address;
    if (tail != 0) ::munmap(pointer(address + bytes), tail);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  reservations_[address] = bytes;
  return address;
}

bool PhysicalMemory::free_addresses(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return false;
  ::munmap(pointer(address), bytes);
  reservations_.erase(found);
  return true;
}

bool PhysicalMemory::inside_reservation(uint64_t address, uint64_t bytes) const {
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin() || address + bytes < address) return false;
  const auto& [base, size] = *std::prev(next);
  return address + bytes <= base + size;
}

// True when whole mappings fill the range without a gap.
bool PhysicalMemory::exactly_mapped(uint64_t address, uint64_t bytes) const {
  const uint64_t end = address + bytes;
  if (bytes == 0 || end < address) return false;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first == address; ++it) {
    address += it->second.bytes;
    if (address >= end) return address == end;
  }
  return false;
}

bool PhysicalMemory::map(uint64_t address, uint64_t bytes, uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto allocation = allocations_.find(offset);
  if (allocation == allocations_.end() || allocation->second.bytes != bytes) return false;
  if (!inside_reservation(address, bytes)) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (next != mappings_.begin() && std::prev(next)->first + std::prev(next)->second.bytes > address)
    return false;
  if (::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_.get(),
             static_cast<off_t>(offset)) == MAP_FAILED) {
    return false;
  }
  ++allocation->second.references;
  mappings_[address] = {bytes, offset};
  return true;
}

bool PhysicalMemory::unmap(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!exactly_mapped(address, bytes)) return false;
  ::mmap(pointer(address), bytes, PROT_NONE, kEmptyFlags | MAP_FIXED, -1, 0);
  auto it = mappings_.find(address);
  while (it != mappings_.end() && it->first < address + bytes) {
    release_locked(it->second.offset);
    it = mappings_.erase(it);
  }
  return true;
}

bool PhysicalMemory::protect(uint64_t address, uint64_t bytes, int protection) {
  std::lock_guard<std::mutex> lock(mutex_);
  return exactly_mapped(address, bytes) && ::mprotect(pointer(address), bytes, protection) == 0;
}

}  // namespace vgpu::softgpu
