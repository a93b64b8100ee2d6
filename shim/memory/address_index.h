// From a device address to the block that holds it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_ADDRESS_INDEX_H_
#define VGPU_SHIM_MEMORY_ADDRESS_INDEX_H_

#include <bitset>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mapping.h"
#include "shim/memory/block_pool.h"

namespace vgpu::shim {

inline constexpr uint64_t kChunkShift = 21, kChunkBytes = uint64_t{1} << kChunkShift;
inline constexpr uint64_t kUnitShift = 9,
                          kUnitBytes = uint64_t{1}
                                       << kUnitShift;  // what small blocks are multiples of
inline constexpr uint32_t kChunkUnits = 1u << (kChunkShift - kUnitShift);

// What is in one chunk of small blocks: where blocks begin, and which.
struct SmallChunk {
  uint64_t address = 0;
  BlockIndex container = kNoBlock;  // the large block that this chunk is
  uint32_t live = 0;                // blocks in it that are given out
  uint64_t starts[kChunkUnits / 64] = {};
  BlockIndex block_at[kChunkUnits] = {};

  void set_start(uint64_t block_address, BlockIndex index);
  void clear_start(uint64_t block_address);
  // The block that holds `at`: the last one that begins at or before it.
  BlockIndex find(uint64_t at) const;
};

// One word for each 2 MiB of a 47-bit address space, in memory that costs only where it is touched.
// Not thread-safe.
class AddressIndex {
 public:
  static constexpr uint64_t kAddressLimit = uint64_t{1} << 47;

  // Fails when the table's address space cannot be had.
  Status open();
  void set_large(uint64_t address, uint64_t bytes, BlockIndex index);  // kNoBlock clears
  SmallChunk* add_small(uint64_t address);
  void remove_small(SmallChunk* chunk);
  SmallChunk* small_at(uint64_t address) const;
  BlockIndex find(uint64_t address) const;

 private:
  static constexpr uint32_t kSmallTag = 1u << 31;
  uint32_t* table() const { return reinterpret_cast<uint32_t*>(table_.data()); }

  Mapping table_;
  std::vector<std::unique_ptr<SmallChunk>> chunks_;  // by number; never shrinks
  std::vector<uint32_t> unused_chunks_;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_ADDRESS_INDEX_H_
