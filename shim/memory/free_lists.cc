// Free blocks binned by size.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/free_lists.h"

#include <bit>

namespace vgpu::shim {

uint32_t FreeLists::bin_of(uint64_t bytes) const {
  const uint64_t granules = bytes >> granule_shift_;
  if (granules < kSplit) return static_cast<uint32_t>(granules);
  const auto top = static_cast<uint32_t>(std::bit_width(granules)) - 1;
  const auto part = static_cast<uint32_t>(granules >> (top - kSplitShift)) & (kSplit - 1);
  return (top - kSplitShift + 1) * kSplit + part;
}

uint32_t FreeLists::next_bin(uint32_t from) const {
  for (uint32_t word = from / 64; word < occupied_.size(); ++word) {
    uint64_t bits = occupied_[word];
    if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
    if (bits != 0) return word * 64 + static_cast<uint32_t>(std::countr_zero(bits));
  }
  return kBins;
}

BlockIndex FreeLists::scan(uint32_t bin, uint64_t bytes, uint32_t steps_max) const {
  BlockIndex index = heads_[bin];
  for (uint32_t step = 0; index != kNoBlock && step < steps_max; ++step) {
    const Block& block = pool_[index];
    if (block.bytes >= bytes) return index;
    index = block.free_next;
  }
  return kNoBlock;
}

BlockIndex FreeLists::find(uint64_t bytes) const {
  constexpr uint32_t kQuickSteps = 4;
  const uint32_t own = bin_of(bytes);
  if (BlockIndex near = scan(own, bytes, kQuickSteps); near != kNoBlock) return near;
  const uint32_t above = own + 1 < kBins ? next_bin(own + 1) : kBins;
  if (above < kBins) return heads_[above];
  return scan(own, bytes, ~uint32_t{0});
}

BlockIndex FreeLists::large() const {
  for (size_t word = occupied_.size(); word-- > 0;) {
    if (occupied_[word] != 0) return heads_[word * 64 + 63 - std::countl_zero(occupied_[word])];
  }
  return kNoBlock;
}

void FreeLists::insert(BlockIndex index) {
  Block& block = pool_[index];
  bytes_ += block.bytes;
  const uint32_t bin = bin_of(block.bytes);
  block.state = BlockState::kFree;
  block.free_previous = kNoBlock;
  block.free_next = heads_[bin];
  if (block.free_next != kNoBlock) pool_[block.free_next].free_previous = index;
  heads_[bin] = index;
  occupied_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void FreeLists::remove(BlockIndex index) {
  Block& block = pool_[index];
  bytes_ -= block.bytes;
  const uint32_t bin = bin_of(block.bytes);
  if (block.free_previous != kNoBlock) {
    pool_[block.free_previous].free_next = block.free_next;
  } else {
    heads_[bin] = block.free_next;
    if (heads_[bin] == kNoBlock) occupied_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
  if (block.free_next != kNoBlock) pool_[block.free_next].free_previous = block.free_previous;
  block.free_previous = block.free_next = kNoBlock;
}

}  // namespace vgpu::shim
