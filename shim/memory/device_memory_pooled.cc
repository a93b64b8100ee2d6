// Blocks that belong to memory pools.
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "shim/memory/device_memory.h"

namespace vgpu::shim {

BlockIndex DeviceMemory::find_pooled(uint64_t address) {
  BlockIndex index = index_.find(address);
  if (index == kNoBlock || pool_[index].address != address) index = find_foreign(address);
  const bool found =
      index != kNoBlock && pool_[index].state == BlockState::kLive && pool_[index].pooled;
  return found ? index : kNoBlock;
}

CUresult DeviceMemory::free_pooled(uint64_t address, bool past) {
  std::unique_lock lock(mutex_);
  const BlockIndex index = find_pooled(address);
  if (index == kNoBlock) return CUDA_ERROR_INVALID_VALUE;
  if (pool_[index].shared) [[unlikely]]
    return free_shared(index);
  if (options_.mode != MemoryMode::kForwarded) {
    retire_live(index, past);
    return CUDA_SUCCESS;
  }
  disown(address);
  releasing_ = true;
  lock.unlock();
  return port_.release(address, false);
}

bool DeviceMemory::split_pooled(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const BlockIndex index = find_pooled(address);
  if (index == kNoBlock || options_.mode == MemoryMode::kForwarded || pool_[index].small ||
      pool_[index].shared || bytes % kChunkBytes != 0 || bytes == 0 ||
      bytes >= pool_[index].bytes) {
    return false;
  }
  split(index, bytes);
  const BlockIndex rest = pool_[index].next;
  large_free_.remove(rest);
  Block& cut = pool_[rest];
  cut.state = BlockState::kLive;
  cut.pooled = true;
  cut.context = 0;
  cut.requested = 0;
  cut.id = ++next_id_;
  index_.set_large(cut.address, cut.bytes, rest);
  return true;
}

void DeviceMemory::show_pooled(uint64_t address, uint64_t requested) {
  std::unique_lock lock(mutex_);
  const BlockIndex index = find_pooled(address);
  if (index == kNoBlock) return;
  pool_[index].requested = requested;
  if (pool_[index].shared) [[unlikely]]
    port_.unshare(id_of(pool_[index]));
  if (requested != 0) pool_[index].id = ++next_id_;
}

bool DeviceMemory::pooled_shared(uint64_t address) {
  std::unique_lock lock(mutex_);
  const BlockIndex index = find_pooled(address);
  return index != kNoBlock && pool_[index].shared;
}

}  // namespace vgpu::shim
