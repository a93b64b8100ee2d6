// Free blocks binned by size: two-level segregated fit.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_FREE_LISTS_H_
#define VGPU_SHIM_MEMORY_FREE_LISTS_H_

#include <array>
#include <cstdint>

#include "shim/memory/block_pool.h"

namespace vgpu::shim {

// Bins of free blocks; each power of two is split in four. Insert, remove and the usual find are
// O(1); a find that would fail scans the bin of its own size before it says so, so that no block
// that fits is overlooked. Not thread-safe.
class FreeLists {
 public:
  // `granule`: power of two; every size is a multiple of it.
  FreeLists(BlockPool& pool, uint32_t granule_shift) : pool_(pool), granule_shift_(granule_shift) {}

  void insert(BlockIndex index);
  void remove(BlockIndex index);
  // A block of at least `bytes`, still in its list; kNoBlock when there is none.
  BlockIndex find(uint64_t bytes) const;
  // One of the largest; kNoBlock when the lists are empty.
  BlockIndex large() const;
  // Sum of all.
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr uint32_t kSplitShift = 2, kSplit = 1u << kSplitShift;
  static constexpr uint32_t kBins = 48 * kSplit;
  uint32_t bin_of(uint64_t bytes) const;
  uint32_t next_bin(uint32_t from) const;  // first non-empty bin >= from, kBins when none
  BlockIndex scan(uint32_t bin, uint64_t bytes, uint32_t steps_max) const;

  BlockPool& pool_;
  const uint32_t granule_shift_;
  uint64_t bytes_ = 0;
  std::array<uint64_t, kBins / 64> occupied_{};
  std::array<BlockIndex, kBins> heads_{};
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_FREE_LISTS_H_
