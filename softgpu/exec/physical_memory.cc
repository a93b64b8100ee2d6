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

Result<std::unique_ptr<PhysicalMemory>> PhysicalMemory::create(DeviceSegment* segment,
                                                               PhysicalMemory* first,
                                                               int identity) {
  std::unique_ptr<PhysicalMemory> memory(new PhysicalMemory(segment, first, identity));
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

bool PhysicalMemory::release(uint64_t key, uint64_t* name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = allocations_.find(key);
  if (found == allocations_.end() || --found->second.references != 0) return false;
  const Allocation& gone = found->second;
  if (name != nullptr) *name = gone.name;
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
  if (addresses_ != this) return addresses_->retain(address);
  std::lock_guard<std::mutex> lock(address_mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  if (mapping == nullptr) return std::nullopt;
  std::lock_guard<std::mutex> owner(mapping->memory->mutex_);
  Allocation& allocation = mapping->memory->allocations_[mapping->key];
  ++allocation.references;
  return allocation.name;
}

int PhysicalMemory::PhysicalMapping::protection() const {
  int all = PROT_NONE;
  for (const uint8_t each : access) all |= each;
  return all;
}

int PhysicalMemory::protection_at(uint64_t address, int device) const {
  if (addresses_ != this) return addresses_->protection_at(address, device);
  std::lock_guard<std::mutex> lock(address_mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  return mapping == nullptr ? -1 : mapping->access[static_cast<size_t>(device)];
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
  std::lock_guard<std::mutex> lock(addresses_->address_mutex_);
  addresses_->reservations_[address] = asked;
  return address;
}

bool PhysicalMemory::free_addresses(uint64_t address, uint64_t bytes) {
  if (addresses_ != this) return addresses_->free_addresses(address, bytes);
  std::lock_guard<std::mutex> lock(address_mutex_);
  const auto found = reservations_.find(address);
  if (found == reservations_.end() || found->second != bytes) return false;
  const auto mapped = mappings_.lower_bound(address);
  if (mapped != mappings_.end() && mapped->first < address + bytes) return false;
  ::munmap(pointer(address), whole(bytes));
  reservations_.erase(found);
  return true;
}

bool PhysicalMemory::reservation_of(uint64_t address, uint64_t* base, uint64_t* bytes) const {
  if (addresses_ != this) return addresses_->reservation_of(address, base, bytes);
  std::lock_guard<std::mutex> lock(address_mutex_);
  const auto next = reservations_.upper_bound(address);
  if (next == reservations_.begin()) return false;
  const auto& [start, size] = *std::prev(next);
  if (address - start >= size) return false;
  *base = start;
  *bytes = size;
  return true;
}

uint64_t PhysicalMemory::name_at(uint64_t address) const {
  if (addresses_ != this) return addresses_->name_at(address);
  std::lock_guard<std::mutex> lock(address_mutex_);
  const PhysicalMapping* const mapping = mapping_at(address);
  if (mapping == nullptr) return 0;
  std::lock_guard<std::mutex> owner(mapping->memory->mutex_);
  return mapping->memory->allocations_.at(mapping->key).name;
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

// A mapping of a whole allocation begins to use it.
bool PhysicalMemory::refer(uint64_t key, uint64_t bytes, int* file, uint64_t* offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto allocation = allocations_.find(key);
  if (allocation == allocations_.end() || allocation->second.bytes != bytes) return false;
  ++allocation->second.references;
  const bool own = allocation->second.own.valid();
  *file = own ? allocation->second.own.get() : file_.get();
  *offset = own ? 0 : key;
  return true;
}

bool PhysicalMemory::map(uint64_t address, uint64_t bytes, uint64_t key) {
  return addresses_->map_here(address, bytes, key, this);
}

bool PhysicalMemory::map_here(uint64_t address, uint64_t bytes, uint64_t key,
                              PhysicalMemory* memory) {
  std::lock_guard<std::mutex> lock(address_mutex_);
  if (!inside_reservation(address, bytes)) return false;
  const auto next = mappings_.lower_bound(address);
  if (next != mappings_.end() && next->first < address + bytes) return false;
  if (mapping_at(address) != nullptr) return false;
  int file = -1;
  uint64_t offset = 0;
  if (!memory->refer(key, bytes, &file, &offset)) return false;
  if (::mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(offset)) == MAP_FAILED) {
    memory->release(key);
    return false;
  }
  mappings_[address] = {bytes, key, memory, {}};
  return true;
}

bool PhysicalMemory::unmap(uint64_t address, uint64_t bytes, std::vector<uint64_t>* gone) {
  if (addresses_ != this) return addresses_->unmap(address, bytes, gone);
  std::lock_guard<std::mutex> lock(address_mutex_);
  if (!exactly_mapped(address, bytes)) return false;
  ::mmap(pointer(address), bytes, PROT_NONE, kEmptyFlags | MAP_FIXED, -1, 0);
  auto it = mappings_.find(address);
  while (it != mappings_.end() && it->first < address + bytes) {
    uint64_t name = 0;
    if (it->second.memory->release(it->second.key, &name) && gone != nullptr) gone->push_back(name);
    it = mappings_.erase(it);
  }
  return true;
}

bool PhysicalMemory::protect(uint64_t address, uint64_t bytes, int protection, int device) {
  if (addresses_ != this) return addresses_->protect(address, bytes, protection, device);
  std::lock_guard<std::mutex> lock(address_mutex_);
  if (!exactly_mapped(address, bytes)) return false;
  for (auto it = mappings_.find(address); it != mappings_.end() && it->first < address + bytes;
       ++it) {
    uint8_t& access = it->second.access[static_cast<size_t>(device)];
    const uint8_t before = access;
    access = static_cast<uint8_t>(protection);
    if (::mprotect(pointer(it->first), it->second.bytes, it->second.protection()) != 0) {
      access = before;
      return false;
    }
  }
  return true;
}

}  // namespace vgpu::softgpu
