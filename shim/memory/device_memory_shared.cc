// Allocations of which other processes have the memory too.
// SPDX-License-Identifier: Apache-2.0
#include <mutex>

#include "shim/memory/device_memory.h"

namespace vgpu::shim {

BlockIndex DeviceMemory::find_shareable(uint64_t address, bool pooled) const {
  const BlockIndex index = index_.find(address);
  if (options_.mode != MemoryMode::kMapped || index == kNoBlock) return kNoBlock;
  const Block& block = pool_[index];
  const bool there = block.state == BlockState::kLive && block.pooled == pooled &&
                     address - block.address < block.requested;
  return there ? index : kNoBlock;
}

bool DeviceMemory::can_share(uint64_t address) {
  std::unique_lock lock(mutex_);
  return find_shareable(address, false) != kNoBlock;
}

CUresult DeviceMemory::share(uint64_t address, Allocation* allocation, bool pooled) {
  std::unique_lock lock(mutex_);
  if (options_.mode != MemoryMode::kMapped) return CUDA_ERROR_NOT_SUPPORTED;
  const BlockIndex index = find_shareable(address, pooled);
  if (index == kNoBlock) return CUDA_ERROR_INVALID_VALUE;
  Block& block = pool_[index];
  block.shared = true;
  *allocation = {block.address, block.requested, id_of(block), block.context, options_.device};
  return CUDA_SUCCESS;
}

// Called with the lock held; lets go of it to wait, as cuMemFree may. A large block loses its
// memory: others keep what they have, and nobody else is given it.
CUresult DeviceMemory::free_shared(BlockIndex index) {
  Block& block = pool_[index];
  const uint64_t id = id_of(block), address = block.address, bytes = block.bytes;
  block.shared = block.pooled = false;
  port_.unshare(id);
  if (block.small) {
    retire_live(index);
    return CUDA_SUCCESS;
  }
  count_live(block, false);
  block.requested = 0;
  block.state = BlockState::kPending;  // nobody joins it meanwhile
  mutex_.unlock();
  const bool alive = port_.idle() || port_.wait_retired(port_.fence());
  const CUresult result = alive ? port_.unmap(address, bytes) : CUDA_ERROR_UNKNOWN;
  mutex_.lock();
  if (result == CUDA_SUCCESS) drop_backing(index);
  return result;
}

}  // namespace vgpu::shim
