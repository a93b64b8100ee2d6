// Descriptors of blocks of device memory.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/block_pool.h"

namespace vgpu::shim {

BlockIndex BlockPool::take() {
  if (first_unused_ == kNoBlock) grow();
  const BlockIndex index = first_unused_;
  Block& block = (*this)[index];
  first_unused_ = block.free_next;
  block = Block();
  return index;
}

void BlockPool::give(BlockIndex index) {
  Block& block = (*this)[index];
  block = Block();
  block.free_next = first_unused_;
  first_unused_ = index;
}

void BlockPool::grow() {
  const auto base = static_cast<BlockIndex>(pages_.size() << kPageShift);
  pages_.push_back(std::make_unique<Block[]>(kPageBlocks));
  for (uint32_t i = kPageBlocks; i-- > 0;) {
    if (base + i == kNoBlock) continue;  // index 0 means none
    pages_.back()[i].free_next = first_unused_;
    first_unused_ = base + i;
  }
}

}  // namespace vgpu::shim
