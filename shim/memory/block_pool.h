// Descriptors of blocks of device memory, in storage that never moves.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_MEMORY_BLOCK_POOL_H_
#define VGPU_SHIM_MEMORY_BLOCK_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::shim {

using BlockIndex = uint32_t;
inline constexpr BlockIndex kNoBlock = 0;

enum class BlockState : uint8_t {
  kUnused,   // the descriptor names no memory
  kFree,     // in a free list
  kLive,     // given out
  kPending,  // freed by the caller; work that may touch it is not known to be past
  kChunk,    // a large block that is cut into small ones
};

// One stretch of device memory. Neighbours are linked in address order while their memory is
// contiguous.
struct Block {
  uint64_t address = 0;
  uint64_t bytes = 0;      // what it occupies
  uint64_t requested = 0;  // what the caller asked for (kLive)
  uint64_t id = 0;  // unique over the life of the process (kLive): CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint64_t context = 0;                             // owner (kLive)
  BlockIndex previous = kNoBlock, next = kNoBlock;  // neighbours in address order
  BlockIndex free_previous = kNoBlock,
             free_next = kNoBlock;  // list links (free list, or queue of pending ones)
  BlockState state = BlockState::kUnused;
  bool small = false;   // belongs to the arena of small blocks
  bool pooled = false;  // given to a memory pool, which alone gives it back (kLive)
  bool shared = false;  // other processes may have it too (kLive)
};

// Hands out descriptors by index; 0 is none. Not thread-safe. Grows by pages and gives nothing
// back.
class BlockPool {
 public:
  BlockPool() { grow(); }
  BlockIndex take();
  void give(BlockIndex index);
  Block& operator[](BlockIndex index) { return pages_[index >> kPageShift][index & kPageMask]; }
  // One more than the highest index ever handed out may be; for walks over all blocks.
  BlockIndex size() const { return static_cast<BlockIndex>(pages_.size() << kPageShift); }
  const Block& operator[](BlockIndex index) const {
    return pages_[index >> kPageShift][index & kPageMask];
  }

 private:
  static constexpr uint32_t kPageShift = 9, kPageBlocks = 1u << kPageShift,
                            kPageMask = kPageBlocks - 1;
  void grow();

  std::vector<std::unique_ptr<Block[]>> pages_;
  BlockIndex first_unused_ = kNoBlock;
};

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_MEMORY_BLOCK_POOL_H_
