// The memory pools of a process.
// SPDX-License-Identifier: Apache-2.0
#include "api/pools/stream_pools.h"

#include <algorithm>

namespace vgpu {
namespace {

uint64_t rounded(uint64_t bytes) {
  const uint64_t step = bytes < kPoolLargeStep ? kPoolSmallStep : kPoolLargeStep;
  return (bytes + step - 1) & ~(step - 1);
}

// Pinned memory of a device only.
CUresult check_properties(const CUmemPoolProps& properties, size_t devices) {
  if (properties.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const bool clean = std::all_of(std::begin(properties.reserved), std::end(properties.reserved),
                                 [](unsigned char each) { return each == 0; });
  if (!clean || properties.win32SecurityAttributes != nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (properties.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (properties.location.id < 0 || static_cast<size_t>(properties.location.id) >= devices)
        return CUDA_ERROR_INVALID_DEVICE;
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  const bool known = properties.handleTypes == CU_MEM_HANDLE_TYPE_NONE ||
                     properties.handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return known && properties.usage == 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

StreamPools::StreamPools(const std::vector<PoolMemory*>& memories,
                         const std::vector<PoolMemory*>& imported) {
  for (size_t i = 0; i < memories.size(); ++i) devices_.push_back({memories[i], imported[i], 0, 0});
}

StreamPools::Entry* StreamPools::find(uint64_t pool) {
  Entry* const* found = ids_.find(pool);
  return found == nullptr ? nullptr : *found;
}

StreamPools::Entry& StreamPools::add(int device) {
  Entry& made = pools_.emplace_back();
  made.device = device;
  made.id = ids_.insert(&made);
  return made;
}

StreamPools::PerDevice& StreamPools::with_default(int device) {
  PerDevice& found = devices_[static_cast<size_t>(device)];
  if (found.default_id == 0) found.default_id = found.current = add(device).id;
  return found;
}

uint64_t StreamPools::default_pool(int device) {
  std::lock_guard lock(mutex_);
  return with_default(device).default_id;
}

uint64_t StreamPools::current(int device) {
  std::lock_guard lock(mutex_);
  return with_default(device).current;
}

CUresult StreamPools::set_current(int device, uint64_t pool) {
  std::lock_guard lock(mutex_);
  const Entry* entry = find(pool);
  if (entry == nullptr || entry->device != device || entry->imported)
    return CUDA_ERROR_INVALID_VALUE;
  with_default(device).current = pool;
  return CUDA_SUCCESS;
}

CUresult StreamPools::create(const CUmemPoolProps* properties, uint64_t* pool) {
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = check_properties(*properties, devices_.size());
      result != CUDA_SUCCESS) {
    return result;
  }
  std::lock_guard lock(mutex_);
  const bool exportable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
  const auto device = static_cast<size_t>(properties->location.id);
  if (exportable && !devices_[device].memory->exports()) return CUDA_ERROR_NOT_SUPPORTED;
  Entry& made = add(properties->location.id);
  made.exportable = exportable;
  made.pool.size_max = properties->maxSize;
  if (made.id == 0) {
    pools_.pop_back();
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *pool = made.id;
  return CUDA_SUCCESS;
}

CUresult StreamPools::destroy(uint64_t pool, PoolName* name) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PerDevice& device = devices_[static_cast<size_t>(entry->device)];
  if (pool == device.default_id) return CUDA_ERROR_INVALID_VALUE;
  *name = entry->imported ? PoolName() : entry->name;
  ids_.remove(pool);
  entry->id = 0;
  if (device.current == pool) device.current = with_default(entry->device).default_id;
  (void)entry->pool.trim(memory_of(*entry), 0, false);
  drop_done();
  count_parked();
  return CUDA_SUCCESS;
}

// A pool without a name goes with its last block, which work may use long after it was freed; so
// does the access of other devices.
void StreamPools::drop_done() {
  pools_.remove_if([this](Entry& each) {
    const bool done = each.id == 0 && each.pool.empty() && each.pool.parked_bytes() == 0;
    if (done) (void)set_peers(each, {});
    return done;
  });
}

CUresult StreamPools::trim(uint64_t pool, uint64_t keep, int* device) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool);
  if (entry == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = entry->device;
  (void)entry->pool.trim(memory_of(*entry), keep, false);
  count_parked();
  return CUDA_SUCCESS;
}

CUresult StreamPools::allocate(int device, uint64_t pool, uint64_t bytes, const StreamPlace& place,
                               uint64_t* address) {
  std::lock_guard lock(mutex_);
  Entry* entry = find(pool == 0 ? with_default(device).current : pool);
  if (entry == nullptr || entry->imported || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > UINT64_MAX - kPoolLargeStep) return CUDA_ERROR_OUT_OF_MEMORY;
  used_.store(true, std::memory_order_relaxed);
  const uint64_t held = rounded(bytes);
  PoolMemory& memory = memory_of(*entry);
  CUresult result = entry->pool.allocate(memory, order_, place, held, bytes, address);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && give_back_locked(entry->device))
    result = entry->pool.allocate(memory, order_, place, held, bytes, address);
  count_parked();
  return result;
}

StreamPools::Entry* StreamPools::owner(uint64_t address) {
  const auto it = std::find_if(pools_.begin(), pools_.end(),
                               [&](const Entry& each) { return each.pool.holds(address); });
  return it == pools_.end() ? nullptr : &*it;
}

bool StreamPools::free(uint64_t address, const StreamPlace& place) {
  std::lock_guard lock(mutex_);
  Entry* entry = owner(address);
  if (entry == nullptr) return false;
  entry->pool.park(memory_of(*entry), address, place);
  count_parked();
  return true;
}

bool StreamPools::free_now(uint64_t address) {
  std::unique_lock lock(mutex_);
  Entry* entry = owner(address);
  if (entry == nullptr) return false;
  PoolMemory& memory = memory_of(*entry);
  // Whoever waits for work keeps nobody from the pools.
  const bool waits = entry->imported || !memory.releasable(address, {});
  if (waits)
    entry->pool.forget(address);
  else
    entry->pool.free(memory, address, {});
  drop_done();
  lock.unlock();
  if (waits) memory.release(address, {}, false);
  return true;
}

uint64_t StreamPools::pool_of(uint64_t address) {
  if (!used()) return 0;
  std::lock_guard lock(mutex_);
  const Entry* entry = owner(address);
  return entry == nullptr ? 0 : entry->id;
}

void StreamPools::follow(const StreamPlace& waiter, uint64_t context, uint64_t recorded,
                         uint64_t number) {
  std::lock_guard lock(mutex_);
  order_.follow(waiter, context, recorded, number);
}

void StreamPools::release_unused() {
  std::lock_guard lock(mutex_);
  for (Entry& each : pools_) {
    const uint64_t keep = each.id != 0 ? each.pool.threshold : 0;
    if (each.pool.parked_bytes() != 0) (void)each.pool.trim(memory_of(each), keep, false);
  }
  drop_done();
  count_parked();
}

bool StreamPools::give_back_locked(int device) {
  bool any = false;
  for (Entry& each : pools_) {
    if (each.device == device) any |= each.pool.trim(memory_of(each), 0, true);
  }
  drop_done();
  count_parked();
  return any;
}

bool StreamPools::give_back(int device) {
  if (!used()) return false;
  std::lock_guard lock(mutex_);
  return give_back_locked(device);
}

void StreamPools::forget_memory(int device) {
  if (!used()) return;
  std::lock_guard lock(mutex_);
  for (Entry& each : pools_) {
    if (each.device == device) each.pool.clear(memory_of(each));
  }
  order_.clear();
  drop_done();
  count_parked();
}

void StreamPools::count_parked() {
  uint64_t bytes = 0;
  for (const Entry& each : pools_) bytes += each.pool.parked_bytes();
  parked_.store(bytes, std::memory_order_relaxed);
}

}  // namespace vgpu
