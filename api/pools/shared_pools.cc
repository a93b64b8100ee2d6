// Pools that several processes have: the names that one gives and another brings.
// SPDX-License-Identifier: Apache-2.0
#include "api/pools/stream_pools.h"

namespace vgpu {

CUresult StreamPools::check_export(uint64_t pool, int* device, PoolName* name) {
  std::lock_guard lock(mutex_);
  const Entry* entry = find(pool);
  if (entry == nullptr || !entry->exportable) return CUDA_ERROR_INVALID_VALUE;
  *device = entry->device;
  *name = entry->name;
  return CUDA_SUCCESS;
}

void StreamPools::set_name(uint64_t pool, const PoolName& name) {
  std::lock_guard lock(mutex_);
  if (Entry* entry = find(pool); entry != nullptr) entry->name = name;
}

CUresult StreamPools::exported_from(uint64_t address, int* device, PoolName* name) {
  std::lock_guard lock(mutex_);
  const Entry* entry = owner(address);
  if (entry == nullptr || !entry->exportable || entry->id == 0 || entry->name == PoolName())
    return CUDA_ERROR_INVALID_VALUE;
  *device = entry->device;
  *name = entry->name;
  return CUDA_SUCCESS;
}

CUresult StreamPools::import_pool(int device, const PoolName& name, uint64_t* pool) {
  std::lock_guard lock(mutex_);
  Entry& made = add(device);
  if (made.id == 0) {
    pools_.pop_back();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made.imported = true;
  made.name = name;
  *pool = made.id;
  return CUDA_SUCCESS;
}

CUresult StreamPools::check_import(uint64_t pool, const PoolName& name, int* device) {
  std::lock_guard lock(mutex_);
  const Entry* entry = find(pool);
  if (entry == nullptr || !entry->imported || entry->name != name) return CUDA_ERROR_INVALID_VALUE;
  *device = entry->device;
  return CUDA_SUCCESS;
}

CUresult StreamPools::adopt(uint64_t pool, uint64_t address, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr || !entry->imported) return CUDA_ERROR_INVALID_VALUE;
  used_.store(true, std::memory_order_relaxed);
  entry->pool.adopt(address, bytes);
  return CUDA_SUCCESS;
}

}  // namespace vgpu
