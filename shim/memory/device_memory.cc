// The guest's device memory: what callers see.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/device_memory.h"

#include <algorithm>
#include <mutex>

namespace vgpu::shim {
namespace {

constexpr uint64_t round_up(uint64_t value, uint64_t step) {
  return (value + step - 1) & ~(step - 1);
}

}  // namespace

DeviceMemory::DeviceMemory(MemoryPort& port, const Options& options)
    : port_(port), options_(options), frontier_(options.base) {}

CUresult DeviceMemory::allocate(uint64_t bytes, uint64_t context, bool pooled, uint64_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t quota = total();
  if (bytes > quota) return CUDA_ERROR_OUT_OF_MEMORY;
  if (quota < options_.grant && over_lowered_quota(bytes)) [[unlikely]]
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (options_.mode == MemoryMode::kForwarded)
    return allocate_forwarded(bytes, context, pooled, address);
  const bool small = bytes < kChunkBytes;
  const uint64_t size = round_up(bytes, small ? kUnitBytes : kChunkBytes);
  std::unique_lock lock(mutex_);
  if (!pending_.empty()) drain();
  BlockIndex index = take(size, small);
  while (index == kNoBlock) {
    const Step step = make_room(small ? kChunkBytes : size);
    if (step == Step::kExhausted) return CUDA_ERROR_OUT_OF_MEMORY;
    index = take(size, small);
  }
  Block& block = pool_[index];
  block.state = BlockState::kLive;
  block.requested = bytes;
  block.context = context;
  block.pooled = pooled;
  block.shared = false;
  block.id = ++next_id_;
  count_live(block, true);
  if (!small) index_.set_large(block.address, block.bytes, index);
  *address = block.address;
  return CUDA_SUCCESS;
}

// What was backed before an operator lowered the quota is still there to be used; it must not be
// where that would be more than the quota.
bool DeviceMemory::over_lowered_quota(uint64_t bytes) {
  const uint64_t beside = port_.used_beside();
  std::unique_lock lock(mutex_);
  const uint64_t used = used_ + beside, quota = total();
  const uint64_t size = round_up(bytes, bytes < kChunkBytes ? kUnitBytes : kChunkBytes);
  return used > quota || size > quota - used;
}

CUresult DeviceMemory::free(uint64_t address, bool waits) {
  std::unique_lock lock(mutex_);
  const BlockIndex index = index_.find(address);
  if (index == kNoBlock || pool_[index].address != address ||
      pool_[index].state != BlockState::kLive) {
    if (options_.mode != MemoryMode::kForwarded) return CUDA_ERROR_INVALID_VALUE;
    const BlockIndex foreign = find_foreign(address);
    // Variables of modules are the driver's own: they count nothing.
    if (foreign == kNoBlock || pool_[foreign].pooled || pool_[foreign].bytes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    disown(address);
    releasing_ |= !waits;
    lock.unlock();
    return port_.release(address, waits);
  }
  if (pool_[index].pooled) return CUDA_ERROR_INVALID_VALUE;
  if (pool_[index].shared) [[unlikely]]
    return free_shared(index);
  retire_live(index);
  // Others are to have what was taken from the quota.
  const uint64_t quota = total();
  if (quota < options_.grant && mapped_ > quota) [[unlikely]] {
    lock.unlock();
    give_back_free();
  }
  return CUDA_SUCCESS;
}

void DeviceMemory::retire_live(BlockIndex index, bool past) {
  Block& block = pool_[index];
  count_live(block, false);
  block.requested = 0;
  block.pooled = false;
  if (past || port_.idle()) {
    release(index);
  } else {
    queue_pending(index);
  }
}

// What is counted as taken: large blocks as they are, small ones by the chunks that hold any.
void DeviceMemory::count_live(Block& block, bool born) {
  uint64_t change = block.bytes;
  if (block.small) {
    SmallChunk* chunk = index_.small_at(block.address);
    const bool edge = born ? chunk->live++ == 0 : --chunk->live == 0;
    change = edge ? kChunkBytes : 0;
  }
  used_ = born ? used_ + change : used_ - change;
}

bool DeviceMemory::find(uint64_t address, Allocation* allocation) {
  std::unique_lock lock(mutex_);
  BlockIndex index = index_.find(address);
  if (index == kNoBlock || pool_[index].state != BlockState::kLive ||
      address - pool_[index].address >= pool_[index].requested) {
    const auto holds = [&](BlockIndex candidate) {
      return address - pool_[candidate].address < pool_[candidate].requested;
    };
    const auto it = std::find_if(foreign_.begin(), foreign_.end(), holds);
    if (it == foreign_.end()) {
      VirtualMemory::Found found;
      if (virtual_memory_ == nullptr || !virtual_memory_->inside(address) ||
          !virtual_memory_->find(address, &found)) {
        return false;
      }
      *allocation = {found.address, found.bytes, found.id, found.context, found.device};
      return true;
    }
    index = *it;
  }
  const Block& block = pool_[index];
  *allocation = {block.address, block.requested, id_of(block), block.context, options_.device};
  return true;
}

void DeviceMemory::free_all_of(uint64_t context) {
  // Rare and slow on purpose: no per-context list burdens the usual path.
  std::vector<uint64_t> drivers;  // the driver gave them and has to take them back
  std::unique_lock lock(mutex_);
  for (BlockIndex index = 1; index < pool_.size(); ++index) {
    Block& block = pool_[index];
    if (block.state != BlockState::kLive || block.context != context) continue;
    if (block.shared) {
      (void)free_shared(index);
      continue;
    }
    const auto it = std::find(foreign_.begin(), foreign_.end(), index);
    if (it == foreign_.end()) {
      retire_live(index);
    } else {
      // Variables of modules go with their modules.
      if (options_.mode == MemoryMode::kForwarded && block.bytes != 0)
        drivers.push_back(block.address);
      disown(block.address);
    }
  }
  releasing_ |= !drivers.empty();
  lock.unlock();
  for (const uint64_t address : drivers) (void)port_.release(address, false);
}

uint64_t DeviceMemory::used() {
  std::unique_lock lock(mutex_);
  return used_;
}

CUresult DeviceMemory::allocate_forwarded(uint64_t bytes, uint64_t context, bool pooled,
                                          uint64_t* address) {
  CUresult result = port_.allocate(bytes, address);
  std::unique_lock lock(mutex_);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && releasing_) {
    releasing_ = false;
    lock.unlock();
    port_.finish_releases();
    result = port_.allocate(bytes, address);
    lock.lock();
  }
  if (result != CUDA_SUCCESS) return result;
  adopt(*address, bytes, context);
  pool_[foreign_.back()].pooled = pooled;
  used_ += round_up(bytes, kUnitBytes);
  return CUDA_SUCCESS;
}

void DeviceMemory::add_foreign(uint64_t address, uint64_t bytes, uint64_t context) {
  std::unique_lock lock(mutex_);
  for (const BlockIndex known : foreign_) {
    if (pool_[known].address == address) return;
  }
  adopt(address, bytes, context);
  pool_[foreign_.back()].bytes = 0;  // the driver's own: not part of what is counted
}

void DeviceMemory::remove_foreign(uint64_t address) {
  std::unique_lock lock(mutex_);
  disown(address);
}

void DeviceMemory::adopt(uint64_t address, uint64_t bytes, uint64_t context) {
  const BlockIndex index = pool_.take();
  Block& block = pool_[index];
  block.address = address;
  block.requested = bytes;
  block.bytes = round_up(bytes, kUnitBytes);
  block.context = context;
  block.id = ++next_id_;
  block.state = BlockState::kLive;
  foreign_.push_back(index);
}

BlockIndex DeviceMemory::find_foreign(uint64_t address) const {
  const auto it = std::find_if(foreign_.begin(), foreign_.end(),
                               [&](BlockIndex index) { return pool_[index].address == address; });
  return it == foreign_.end() ? kNoBlock : *it;
}

BlockIndex DeviceMemory::disown(uint64_t address) {
  const auto it = std::find_if(foreign_.begin(), foreign_.end(),
                               [&](BlockIndex index) { return pool_[index].address == address; });
  if (it == foreign_.end()) return kNoBlock;
  const BlockIndex index = *it;
  used_ -= pool_[index].bytes;
  pool_.give(index);
  foreign_.erase(it);
  return index;
}

}  // namespace vgpu::shim
