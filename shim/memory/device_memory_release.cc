// Giving the backing of free memory back: for one large block instead of many small ones, and for
// what else the quota is for.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "shim/memory/device_memory.h"

namespace vgpu::shim {

bool DeviceMemory::reclaim(uint64_t bytes) {
  std::unique_lock lock(mutex_);
  bool any = return_chunk();
  if (options_.mode == MemoryMode::kMapped) {
    // First, even if there is none: from here on the worker makes no credit ahead of what goes
    // back.
    const uint64_t credit = port_.credit(), unused = credit - std::min(credit, ever_mapped_);
    port_.return_credit(unused);
    ever_mapped_ += unused;
    any |= unused != 0;
  }
  while (large_free_.bytes() < bytes && !pending_.empty() && wait_for_pending()) {
  }
  return give_back(bytes) || any;
}

void DeviceMemory::give_back_free() {
  std::unique_lock lock(mutex_);
  if (!pending_.empty()) drain();
  return_chunk();
  (void)give_back(large_free_.bytes());
}

// Called with the lock held; lets go of it to wait.
bool DeviceMemory::give_back(uint64_t bytes) {
  switch (options_.mode) {
    case MemoryMode::kMapped:
      return give_back_mapped(bytes);
    case MemoryMode::kLent:
      return give_back_lent(bytes);
    default:
      return false;  // nothing is kept
  }
}

bool DeviceMemory::give_back_mapped(uint64_t bytes) {
  uint64_t gone = 0;
  while (gone < bytes) {
    const BlockIndex index = large_free_.large();
    if (index == kNoBlock) break;
    large_free_.remove(index);
    const uint64_t wanted = (bytes - gone + kChunkBytes - 1) & ~(kChunkBytes - 1);
    if (pool_[index].bytes > wanted) split(index, wanted);
    pool_[index].state = BlockState::kPending;  // nobody joins it meanwhile
    const uint64_t address = pool_[index].address, part = pool_[index].bytes;
    mutex_.unlock();
    const CUresult result = port_.unmap(address, part);
    mutex_.lock();
    if (result != CUDA_SUCCESS) break;  // the session is over: nothing is there to be used again
    drop_backing(index);
    gone += part;
  }
  return gone != 0;
}

// A block that is in no list, and whose backing is gone.
void DeviceMemory::drop_backing(BlockIndex index) {
  const BlockIndex previous = pool_[index].previous;
  const uint64_t from = pool_[index].address;
  uint64_t bytes = pool_[index].bytes;
  const bool last = tail_ == index;
  unlink(index);
  mapped_ -= bytes;
  pool_.give(index);
  if (last && from + bytes == frontier_) {
    frontier_ = from;
    tail_ = previous;
    return;
  }
  if (last) tail_ = kNoBlock;
  auto after = holes_.lower_bound(from);
  if (after != holes_.end() && after->first == from + bytes) {
    bytes += after->second;
    after = holes_.erase(after);
  }
  if (after != holes_.begin() && std::prev(after)->first + std::prev(after)->second == from) {
    std::prev(after)->second += bytes;
  } else {
    holes_[from] = bytes;
  }
}

// The memory of the block goes: what is beside it has no neighbour there any more.
void DeviceMemory::unlink(BlockIndex index) {
  const Block& block = pool_[index];
  if (block.previous != kNoBlock) pool_[block.previous].next = kNoBlock;
  if (block.next != kNoBlock) pool_[block.next].previous = kNoBlock;
}

uint64_t DeviceMemory::find_hole(uint64_t bytes) const {
  const auto hole = std::find_if(holes_.begin(), holes_.end(),
                                 [bytes](const auto& each) { return each.second >= bytes; });
  return hole == holes_.end() ? 0 : hole->first;
}

// Backs the first `bytes` of a hole again, as a block without neighbours.
void DeviceMemory::fill_hole(uint64_t address, uint64_t bytes) {
  const auto hole = holes_.find(address);
  if (hole->second > bytes) holes_[address + bytes] = hole->second - bytes;
  holes_.erase(hole);
  port_.map(address, bytes);
  mapped_ += bytes;
  const BlockIndex index = pool_.take();
  pool_[index].address = address;
  pool_[index].bytes = bytes;
  release_large(index);
}

// Whole slabs only: they are allocations of the driver.
bool DeviceMemory::give_back_lent(uint64_t bytes) {
  uint64_t gone = 0;
  for (BlockIndex index = 1; index < pool_.size() && gone < bytes; ++index) {
    const Block block = pool_[index];
    if (block.state != BlockState::kFree || block.small) continue;
    const auto whole = [&block](const Slab& slab) {
      return slab.begin == block.address && slab.end == block.address + block.bytes;
    };
    const auto it = std::find_if(slabs_.begin(), slabs_.end(), whole);
    if (it == slabs_.end()) continue;
    const Slab slab = *it;
    slabs_.erase(it);
    large_free_.remove(index);
    if (tail_ == index) tail_ = kNoBlock;
    pool_.give(index);
    mapped_ -= block.bytes;
    gone += block.bytes;
    mutex_.unlock();
    (void)port_.take_back(slab.address, slab.lent);
    mutex_.lock();
  }
  return gone != 0;
}

}  // namespace vgpu::shim
