// The guest's device memory: spans, chunks, free lists and the queue of blocks that wait for work
// to be past. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include "shim/memory/device_memory.h"

namespace vgpu::shim {
namespace {

// A batch is closed with a fence when it holds so much, so that freed memory comes back without
// anybody asking.
constexpr uint64_t kBatchBytesMax = uint64_t{64} << 20;
constexpr uint32_t kBatchBlocksMax = 256;
constexpr uint64_t kLendBytesMin = uint64_t{64} << 20;  // mode B: what one slab holds at least

}  // namespace

BlockIndex DeviceMemory::take(uint64_t bytes, bool small) {
  return small ? take_small(bytes) : take_large(bytes);
}

BlockIndex DeviceMemory::take_small(uint64_t bytes) {
  BlockIndex index = small_free_.find(bytes);
  if (index == kNoBlock) {
    const BlockIndex container = take_large(kChunkBytes);
    if (container == kNoBlock) return kNoBlock;
    pool_[container].state = BlockState::kChunk;
    SmallChunk* chunk = index_.add_small(pool_[container].address);
    chunk->container = container;
    index = pool_.take();
    Block& block = pool_[index];
    block.address = chunk->address;
    block.bytes = kChunkBytes;
    block.small = true;
    chunk->set_start(block.address, index);
  } else {
    if (pool_[index].bytes == kChunkBytes) --empty_chunks_;
    small_free_.remove(index);
  }
  split(index, bytes);
  return index;
}

BlockIndex DeviceMemory::take_large(uint64_t bytes) {
  const BlockIndex index = large_free_.find(bytes);
  if (index == kNoBlock) return kNoBlock;
  large_free_.remove(index);
  split(index, bytes);
  return index;
}

// Cuts what is more than `bytes` off `index`, which is in no list, and puts it into the free list.
void DeviceMemory::split(BlockIndex index, uint64_t bytes) {
  if (pool_[index].bytes == bytes) return;
  const BlockIndex rest = pool_.take();
  Block& block = pool_[index];
  Block& cut = pool_[rest];
  cut.address = block.address + bytes;
  cut.bytes = block.bytes - bytes;
  cut.small = block.small;
  cut.previous = index;
  cut.next = block.next;
  if (cut.next != kNoBlock) pool_[cut.next].previous = rest;
  block.next = rest;
  block.bytes = bytes;
  if (block.small) {
    index_.small_at(cut.address)->set_start(cut.address, rest);
    small_free_.insert(rest);
  } else {
    if (tail_ == index) tail_ = rest;
    large_free_.insert(rest);
  }
}

void DeviceMemory::release(BlockIndex index) {
  if (pool_[index].small) {
    release_small(index);
  } else {
    release_large(index);
  }
}

void DeviceMemory::release_large(BlockIndex index) {
  Block* block = &pool_[index];
  block->state = BlockState::kUnused;
  if (const BlockIndex next = block->next;
      next != kNoBlock && pool_[next].state == BlockState::kFree) {
    large_free_.remove(next);
    block->bytes += pool_[next].bytes;
    block->next = pool_[next].next;
    if (block->next != kNoBlock) pool_[block->next].previous = index;
    if (tail_ == next) tail_ = index;
    pool_.give(next);
  }
  if (const BlockIndex before = block->previous;
      before != kNoBlock && pool_[before].state == BlockState::kFree) {
    large_free_.remove(before);
    pool_[before].bytes += block->bytes;
    pool_[before].next = block->next;
    if (block->next != kNoBlock) pool_[block->next].previous = before;
    if (tail_ == index) tail_ = before;
    pool_.give(index);
    index = before;
  }
  large_free_.insert(index);
}

void DeviceMemory::release_small(BlockIndex index) {
  Block* block = &pool_[index];
  SmallChunk* chunk = index_.small_at(block->address);
  block->state = BlockState::kUnused;
  if (const BlockIndex next = block->next;
      next != kNoBlock && pool_[next].state == BlockState::kFree) {
    small_free_.remove(next);
    chunk->clear_start(pool_[next].address);
    block->bytes += pool_[next].bytes;
    block->next = pool_[next].next;
    if (block->next != kNoBlock) pool_[block->next].previous = index;
    pool_.give(next);
  }
  if (const BlockIndex before = block->previous;
      before != kNoBlock && pool_[before].state == BlockState::kFree) {
    small_free_.remove(before);
    chunk->clear_start(block->address);
    pool_[before].bytes += block->bytes;
    pool_[before].next = block->next;
    if (block->next != kNoBlock) pool_[block->next].previous = before;
    pool_.give(index);
    index = before;
  }
  small_free_.insert(index);
  if (pool_[index].bytes == kChunkBytes && ++empty_chunks_ > 1) return_chunk();
}

// One chunk without blocks goes back to the large arena; false when there is none.
bool DeviceMemory::return_chunk() {
  if (empty_chunks_ == 0) return false;
  const BlockIndex index = small_free_.find(kChunkBytes);
  SmallChunk* chunk = index_.small_at(pool_[index].address);
  small_free_.remove(index);
  pool_.give(index);
  const BlockIndex container = chunk->container;
  index_.remove_small(chunk);
  --empty_chunks_;
  release_large(container);
  return true;
}

// Nothing fits `bytes`: tries what helps, cheapest first. Called with the lock held; lets go of it
// to wait.
DeviceMemory::Step DeviceMemory::make_room(uint64_t bytes) {
  if (bytes > kChunkBytes && return_chunk()) return Step::kRetry;
  const Step grown = options_.mode == MemoryMode::kMapped ? grow_mapped(bytes) : grow_lent(bytes);
  if (grown != Step::kExhausted) return grown;
  // Free memory in pieces: its backing is used elsewhere.
  const uint64_t left = unmapped();
  const uint64_t missing = bytes > left ? bytes - left : bytes;
  if (large_free_.bytes() >= missing && give_back(missing)) return Step::kRetry;
  if (!pending_.empty()) return wait_for_pending() ? Step::kRetry : Step::kExhausted;
  return Step::kExhausted;
}

// For the oldest blocks that work may still use. False when the session is over.
bool DeviceMemory::wait_for_pending() {
  close_batch();
  const uint64_t oldest = pending_.front().fence;
  mutex_.unlock();
  const bool alive = port_.wait_retired(oldest);
  mutex_.lock();
  drain();
  return alive;
}

DeviceMemory::Step DeviceMemory::grow_mapped(uint64_t bytes) {
  const bool joins = tail_ != kNoBlock && pool_[tail_].state == BlockState::kFree;
  uint64_t missing = joins ? bytes - std::min(bytes, pool_[tail_].bytes) : bytes;
  if (missing == 0) return Step::kRetry;
  // Where the range ends, the place of what was given back.
  const bool at_frontier = missing <= options_.base + options_.bytes - frontier_;
  const uint64_t hole = at_frontier ? 0 : find_hole(bytes);
  if (!at_frontier) missing = bytes;
  if (missing > unmapped() || (!at_frontier && hole == 0)) return Step::kExhausted;
  const uint64_t total = ever_mapped_ + missing;
  if (total > port_.credit()) {
    mutex_.unlock();
    const CUresult result = port_.request_credit(total);
    mutex_.lock();
    return result == CUDA_SUCCESS ? Step::kRetry : Step::kExhausted;
  }
  ever_mapped_ = total;
  if (!at_frontier) {
    fill_hole(hole, bytes);
    return Step::kRetry;
  }
  port_.map(frontier_, missing);
  add_span(frontier_, missing);
  frontier_ += missing;
  return Step::kRetry;
}

DeviceMemory::Step DeviceMemory::grow_lent(uint64_t bytes) {
  const uint64_t left = unmapped();
  if (bytes > left) return Step::kExhausted;
  const uint64_t wanted = std::min(std::max(bytes, kLendBytesMin), left & ~(kChunkBytes - 1));
  uint64_t address = 0, lent = 0;
  mutex_.unlock();
  CUresult result = port_.lend(wanted, &address, &lent);
  if (result != CUDA_SUCCESS && wanted > bytes) result = port_.lend(bytes, &address, &lent);
  mutex_.lock();
  if (result != CUDA_SUCCESS) return Step::kExhausted;
  if (lent > wanted) return Step::kExhausted;  // more than was asked for: not believed
  const uint64_t begin = (address + kChunkBytes - 1) & ~(kChunkBytes - 1);
  const uint64_t end = (address + lent) & ~(kChunkBytes - 1);
  tail_ = kNoBlock;  // two slabs are two allocations of the driver: no block spans both
  if (begin >= end || end > AddressIndex::kAddressLimit) return Step::kExhausted;
  slabs_.push_back({address, lent, begin, end});
  add_span(begin, end - begin);
  return Step::kRetry;
}

void DeviceMemory::add_span(uint64_t address, uint64_t bytes) {
  const BlockIndex index = pool_.take();
  Block& block = pool_[index];
  block.address = address;
  block.bytes = bytes;
  block.previous = tail_;
  if (tail_ != kNoBlock) pool_[tail_].next = index;
  tail_ = index;
  mapped_ += bytes;
  release_large(index);
}

void DeviceMemory::queue_pending(BlockIndex index) {
  if (pending_.empty() || pending_.back().fence != 0) pending_.emplace_back();
  Batch& batch = pending_.back();
  Block& block = pool_[index];
  block.state = BlockState::kPending;
  block.free_next = kNoBlock;
  if (batch.tail == kNoBlock) {
    batch.head = index;
  } else {
    pool_[batch.tail].free_next = index;
  }
  batch.tail = index;
  batch.bytes += block.bytes;
  if (++batch.count >= kBatchBlocksMax || batch.bytes >= kBatchBytesMax) close_batch();
}

void DeviceMemory::close_batch() {
  if (!pending_.empty() && pending_.back().fence == 0) pending_.back().fence = port_.fence();
}

// Moves every batch whose work is past to the free lists.
void DeviceMemory::drain() {
  if (pending_.empty()) return;
  const bool idle = port_.idle();
  const uint64_t retired = port_.retired();
  while (!pending_.empty()) {
    const Batch batch = pending_.front();
    if (!idle && (batch.fence == 0 || batch.fence > retired)) return;
    pending_.pop_front();
    for (BlockIndex index = batch.head; index != kNoBlock;) {
      const BlockIndex next = pool_[index].free_next;
      pool_[index].free_next = kNoBlock;
      release(index);
      index = next;
    }
  }
}

}  // namespace vgpu::shim
