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

constexpr int kEmptyFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// A reservation of odd size holds whole units, of which the last may not be mapped.
uint64_t whole(uint64_t bytes) { return (bytes + kGranularity - 1) / kGranularity * kGranularity; }

}  // namespace

Result<std::unique_ptr<PhysicalMemory>> PhysicalMemory::create(DeviceSegment* segment) {
  std::unique_ptr<PhysicalMemory> memory(new PhysicalMemory(segment));
  memory->file_.reset(::memfd_create("vgpu-device-memory", MFD_CLOEXEC));
  if (!memory->file_.valid()) return Status::from_errno(errno, "memfd_create");
  if (::ftruncate(memory->file_.get(), static_cast<off_t>(kCommonFileBytes)) < 0) {
    return Status::from_errno(errno, "ftruncate of the device's memory file");
  }
  memory->free_[0] = kCommonFileBytes;
  return memory;
}

PhysicalMemory::~PhysicalMemory() {
  for (const auto& [address, bytes] : reservations_) ::munmap(pointer(address), whole(bytes));
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
  Allocation& made = allocations_[offset];
  made.bytes = bytes;
  made.references = 1;
  return offset;
}

bool PhysicalMemory::release(uint64_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  return release_locked(key);
}

bool PhysicalMemory::release_locked(uint64_t key) {
  const auto found = allocations_.find(key);
  if (found == allocations_.end() || --found->second.references != 0) return false;
  const Allocation& gone = found->second;
  if (gone.counted) segment_->release(gone.bytes);
  if (gone.in_common) give_place(key, gone.bytes);
  allocations_.erase(found);
  return true;
}

// The place is empty and zero for the next one.
void PhysicalMemory::give_place(uint64_t offset, uint64_t bytes) {
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
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

uint64_t PhysicalMemory::bytes_of(uint64_t key) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(key);
  return found == allocations_.end() ? 0 : found->second.bytes;
}

const PhysicalMemory::PhysicalMapping* PhysicalMemory::mapping_at(uint64_t address) const {
  const auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return nullptr;
  const auto& [base, mapping] = *std::prev(next);
  return address - base < mapping.bytes ? &mapping : nullptr;
}

void PhysicalMemory::set_name(uint64_t key, uint64_t name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(key);
  if (found != allocations_.end()) found->second.name = name;
}

std::optional<uint64_t> PhysicalMemory::retain(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  if (mapping == nullptr) return std::nullopt;
  Allocation& allocation = allocations_[mapping->key];
  ++allocation.references;
  return allocation.name;
}

int PhysicalMemory::protection_at(uint64_t address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  return mapping == nullptr ? -1 : mapping->protection;
}

uint64_t PhysicalMemory::reserve_addresses(uint64_t bytes, uint64_t alignment, uint64_t hint) {
  alignment = std::max(alignment, kGranularity);
  const uint64_t asked = bytes;
  bytes = whole(bytes);
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
  reservations_[address] = asked;
  return address;
}

bool PhysicalMemory::free_addresses(uint64_t address, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return false;
  ::munmap(pointer(address), whole(bytes));
  reservations_.erase(found);
  return true;
}

bool PhysicalMemory::reservation_of(uint64_t address, uint64_t* base, uint64_t* bytes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return false;
  const auto& [start, size] = *std::prev(next);
  if (address - start >= size) return false;
  *base = start;
  *bytes = size;
  return true;
}

uint64_t PhysicalMemory::name_at(uint64_t address) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  return mapping == nullptr ? 0 : allocations_.at(mapping->key).name;
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

bool PhysicalMemory::map(uint64_t address, uint64_t bytes, uint64_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto allocation = allocations_.find(key);
  if (allocation == allocations_.end() || allocation->second.bytes != bytes) return false;
  if (!inside_reservation(address, bytes)) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (mapping_at(address) != nullptr) return false;
  const bool own = allocation->second.own.valid();
  if (::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             own ? allocation->second.own.get() : file_.get(),
             own ? 0 : static_cast<off_t>(key)) == MAP_FAILED) {
    return false;
  }
  ++allocation->second.references;
  mappings_[address] = {bytes, key, PROT_NONE};
  return true;
}

bool PhysicalMemory::unmap(uint64_t address, uint64_t bytes, std::vector<uint64_t>* gone) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!exactly_mapped(address, bytes)) return false;
  ::mmap(pointer(address), bytes, PROT_NONE, kEmptyFlags | MAP_FIXED, -1, 0);
  auto it = mappings_.find(address);
  while (it != mappings_.end() && it->first < address + bytes) {
    const uint64_t key = it->second.key, name = allocations_[key].name;
    if (release_locked(key) && gone != nullptr) gone->push_back(name);
    it = mappings_.erase(it);
  }
  return true;
}

bool PhysicalMemory::protect(uint64_t address, uint64_t bytes, int protection) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!exactly_mapped(address, bytes) || ::mprotect(pointer(address), bytes, protection) != 0)
    return false;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;
       ++it)
    it->second.protection = protection;
  return true;
}

}  // namespace vgpu::softgpu
