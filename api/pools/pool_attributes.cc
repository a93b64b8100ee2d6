// What can be asked of a pool and set.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "api/pools/stream_pools.h"

namespace vgpu {
namespace {

CUresult put_flag(void* value, bool flag) {
  const int number = flag ? 1 : 0;
  std::memcpy(value, &number, sizeof(number));
  return CUDA_SUCCESS;
}

CUresult put_bytes(void* value, uint64_t bytes) {
  const cuuint64_t number = bytes;
  std::memcpy(value, &number, sizeof(number));
  return CUDA_SUCCESS;
}

CUresult take_flag(const void* value, bool* flag) {
  int number = 0;
  std::memcpy(&number, value, sizeof(number));
  *flag = number != 0;
  return CUDA_SUCCESS;
}

uint64_t read_bytes(const void* value) {
  cuuint64_t number = 0;
  std::memcpy(&number, value, sizeof(number));
  return number;
}

// A high-water mark can only start again from what is.
CUresult reset_high(const void* value, uint64_t now, uint64_t* high) {
  if (read_bytes(value) != 0) return CUDA_ERROR_INVALID_VALUE;
  *high = now;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult StreamPools::get_attribute(uint64_t pool, CUmemPool_attribute which, void* value) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Pool& p = entry->pool;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return put_flag(value, p.reuse.follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return put_flag(value, p.reuse.opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return put_flag(value, p.reuse.internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return put_bytes(value, p.threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return put_bytes(value, p.reserved());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return put_bytes(value, p.reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return put_bytes(value, p.used());
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return put_bytes(value, p.used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult StreamPools::set_attribute(uint64_t pool, CUmemPool_attribute which, const void* value) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Pool& p = entry->pool;
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return take_flag(value, &p.reuse.follow_events);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return take_flag(value, &p.reuse.opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return take_flag(value, &p.reuse.internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      p.threshold = read_bytes(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return reset_high(value, p.reserved(), &p.reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return reset_high(value, p.used(), &p.used_high);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult StreamPools::get_access(uint64_t pool, const CUmemLocation* location,
                                 CUmemAccess_flags* flags) {
  std::lock_guard lock(mutex_);
  const Entry* entry = find(pool);
  if (entry == nullptr || location == nullptr || flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!has_device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  const bool reaches = location->id == entry->device || entry->peers.count(location->id) != 0;
  *flags = reaches ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult StreamPools::set_peers(Entry& entry, std::set<int> peers) {
  for (int device = 0; has_device(device); ++device) {
    const bool has = entry.peers.count(device) != 0, wants = peers.count(device) != 0;
    if (has == wants) continue;
    const CUresult result = memory_of(entry).share(device, wants);
    if (result != CUDA_SUCCESS) return result;
    if (wants) {
      entry.peers.insert(device);
    } else {
      entry.peers.erase(device);
    }
  }
  return CUDA_SUCCESS;
}

// The device that a pool is on has access, and keeps it; others are given all or nothing.
CUresult StreamPools::set_access(uint64_t pool, const CUmemAccessDesc* descriptions, size_t count) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr || (descriptions == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  std::set<int> peers = entry->peers;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& each = descriptions[i];
    if (each.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    if (!has_device(each.location.id)) return CUDA_ERROR_INVALID_DEVICE;
    const bool own = each.location.id == entry->device;
    if (each.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      if (!own) peers.insert(each.location.id);
    } else if (each.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && !own) {
      peers.erase(each.location.id);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return set_peers(*entry, std::move(peers));
}

}  // namespace vgpu
