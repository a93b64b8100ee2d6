// Ranges of managed memory: what was advised.
// SPDX-License-Identifier: Apache-2.0
#include "api/managed/managed_ranges.h"

#include <algorithm>
#include <iterator>

namespace vgpu {
namespace {

bool same(const CUmemLocation& a, const CUmemLocation& b) {
  return a.type == b.type && a.id == b.id;
}

}  // namespace

// INVALID_VALUE for what is no place, INVALID_DEVICE for a device that is not there.
CUresult ManagedRanges::check_location(const CUmemLocation& location, bool numa_too) const {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return location.id >= 0 && location.id < devices_ ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return numa_too && location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return numa_too ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool ManagedRanges::Advice::operator==(const Advice& other) const {
  return read_mostly == other.read_mostly && accessed_by_devices == other.accessed_by_devices &&
         accessed_by_host == other.accessed_by_host && same(preferred, other.preferred) &&
         same(prefetched, other.prefetched);
}

void ManagedRanges::add(uint64_t base, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  auto it = blocks_.lower_bound(base);
  if (it != blocks_.begin() && std::prev(it)->first + std::prev(it)->second.bytes > base) --it;
  while (it != blocks_.end() && it->first < base + bytes) it = blocks_.erase(it);
  Block& block = blocks_[base];
  block.bytes = bytes;
  block.advice = {{0, Advice()}};
}

void ManagedRanges::remove(uint64_t base) {
  std::lock_guard lock(mutex_);
  blocks_.erase(base);
}

bool ManagedRanges::contains(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  return find(address, bytes, &offset) != nullptr;
}

ManagedRanges::Block* ManagedRanges::find(uint64_t address, uint64_t bytes, uint64_t* offset) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  *offset = address - it->first;
  const bool inside = *offset < it->second.bytes && bytes <= it->second.bytes - *offset;
  return inside ? &it->second : nullptr;
}

template <typename Change>
void ManagedRanges::change(Block* block, uint64_t offset, uint64_t bytes, Change&& change) {
  std::map<uint64_t, Advice>& advice = block->advice;
  const auto cut = [&advice, block](uint64_t at) {
    if (at < block->bytes) advice.emplace(at, std::prev(advice.upper_bound(at))->second);
  };
  cut(offset);
  cut(offset + bytes);
  for (auto it = advice.find(offset); it != advice.end() && it->first < offset + bytes; ++it)
    change(it->second);
  // Neighbours that say the same become one, so that advice costs what it says.
  for (auto it = std::next(advice.begin()); it != advice.end();) {
    it = it->second == std::prev(it)->second ? advice.erase(it) : std::next(it);
  }
}

// What all of a range has in common.
ManagedRanges::Advice ManagedRanges::common(const Block& block, uint64_t offset, uint64_t bytes) {
  auto it = std::prev(block.advice.upper_bound(offset));
  Advice all = it->second;
  for (++it; it != block.advice.end() && it->first < offset + bytes; ++it) {
    const Advice& each = it->second;
    all.read_mostly = all.read_mostly && each.read_mostly;
    all.accessed_by_devices &= each.accessed_by_devices;
    all.accessed_by_host = all.accessed_by_host && each.accessed_by_host;
    if (!same(all.preferred, each.preferred)) all.preferred = Advice().preferred;
    if (!same(all.prefetched, each.prefetched)) all.prefetched = Advice().prefetched;
  }
  return all;
}

CUresult ManagedRanges::advise(uint64_t address, uint64_t bytes, CUmem_advise advice,
                               CUmemLocation location) {
  const bool places = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
  const bool accesses =
      advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  const bool known =
      advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (!known || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (places || accesses) {
    if (const CUresult r = check_location(location, places); r != CUDA_SUCCESS) return r;
  }
  std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  Block* block = find(address, bytes, &offset);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool on = advice == CU_MEM_ADVISE_SET_ACCESSED_BY;
  const bool by_device = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  change(block, offset, bytes, [&](Advice& each) {
    if (accesses) {
      const uint32_t bit = by_device ? uint32_t{1} << location.id : 0;
      each.accessed_by_devices = (each.accessed_by_devices & ~bit) | (on ? bit : 0);
      if (!by_device) each.accessed_by_host = on;
    } else if (places) {
      each.preferred = location;
    } else if (advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION) {
      each.preferred = Advice().preferred;
    } else {
      each.read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
    }
  });
  return CUDA_SUCCESS;
}

CUresult ManagedRanges::check_prefetch(uint64_t address, uint64_t bytes, CUmemLocation location) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_location(location, true); r != CUDA_SUCCESS) return r;
  return contains(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ManagedRanges::prefetch(uint64_t address, uint64_t bytes, CUmemLocation location,
                                 unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_prefetch(address, bytes, location); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(mutex_);
  uint64_t offset = 0;
  Block* block = find(address, bytes, &offset);
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  change(block, offset, bytes, [&](Advice& each) { each.prefetched = location; });
  return CUDA_SUCCESS;
}

CUresult ManagedRanges::attach(uint64_t address, uint64_t bytes, unsigned flags, bool null_stream) {
  const bool single = flags == CU_MEM_ATTACH_SINGLE;
  if (!single && flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  if (single && null_stream) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex_);
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return CUDA_ERROR_INVALID_VALUE;
  return bytes == 0 || bytes == block->second.bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace vgpu
