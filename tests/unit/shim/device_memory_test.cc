// The allocator of device memory, case by case.
// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/shim/device_memory_support.h"

namespace vgpu::shim {
namespace {

TEST_F(DeviceMemoryTest, ZeroBytesAndUnknownAddressesAreInvalid) {
  open(64 * kMiB);
  uint64_t address = 1;
  EXPECT_EQ(memory_->allocate(0, 7, &address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory_->free(0x1234), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory_->free(~uint64_t{0}), CUDA_ERROR_INVALID_VALUE);
  const uint64_t block = take(1000);
  EXPECT_EQ(memory_->free(block + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory_->free(block), CUDA_SUCCESS);
  EXPECT_EQ(memory_->free(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory_->used(), 0U);
}

TEST_F(DeviceMemoryTest, FindKnowsEveryByteOfABlockAndNoOther) {
  open(64 * kMiB);
  const uint64_t small = take(1000), large = take(5 * kMiB);
  Allocation found;
  for (uint64_t offset : {uint64_t{0}, uint64_t{1}, uint64_t{511}, uint64_t{999}}) {
    ASSERT_TRUE(memory_->find(small + offset, &found));
    EXPECT_EQ(found.address, small);
    EXPECT_EQ(found.bytes, 1000U);
  }
  EXPECT_FALSE(memory_->find(small + 1000, &found));
  ASSERT_TRUE(memory_->find(large + 5 * kMiB - 1, &found));
  EXPECT_EQ(found.address, large);
  EXPECT_EQ(found.context, 7U);
  EXPECT_FALSE(memory_->find(large + 5 * kMiB, &found));
  EXPECT_FALSE(memory_->find(kBase - 1, &found));
  EXPECT_FALSE(memory_->find(uint64_t{1} << 60, &found));
}

TEST_F(DeviceMemoryTest, CountsChunksOfSmallBlocksAndLargeBlocksRounded) {
  open(64 * kMiB);
  const uint64_t a = take(1), b = take(100'000), c = take(3 * kMiB);
  EXPECT_EQ(memory_->used(), 2 * kMiB + 4 * kMiB);
  memory_->free(a);
  EXPECT_EQ(memory_->used(), 6 * kMiB);
  memory_->free(b);
  EXPECT_EQ(memory_->used(), 4 * kMiB);
  memory_->free(c);
  EXPECT_EQ(memory_->used(), 0U);
}

TEST_F(DeviceMemoryTest, TheWholeGrantCanBeHadAgainAndAgain) {
  open(64 * kMiB);
  for (int round = 0; round < 3; ++round) {
    const uint64_t all = take(64 * kMiB);
    uint64_t more = 0;
    EXPECT_EQ(memory_->allocate(1, 7, &more), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(memory_->free(all), CUDA_SUCCESS);
    std::vector<uint64_t> pieces;
    for (int i = 0; i < 32; ++i) pieces.push_back(take(2 * kMiB));
    EXPECT_EQ(memory_->allocate(1, 7, &more), CUDA_ERROR_OUT_OF_MEMORY);
    for (const uint64_t piece : pieces) memory_->free(piece);
    const uint64_t tiny = take(16);
    EXPECT_EQ(memory_->allocate(64 * kMiB, 7, &more), CUDA_ERROR_OUT_OF_MEMORY);
    memory_->free(tiny);
  }
  EXPECT_EQ(port_->mapped, 64 * kMiB);
}

TEST_F(DeviceMemoryTest, MoreThanTheGrantIsOutOfMemoryAndNotSticky) {
  open(16 * kMiB);
  uint64_t address = 0;
  EXPECT_EQ(memory_->allocate(17 * kMiB, 7, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory_->allocate(~uint64_t{0}, 7, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(take(16 * kMiB), 0U);
}

TEST_F(DeviceMemoryTest, AFreedBlockIsNotReusedWhileWorkMayTouchIt) {
  open(64 * kMiB);
  const uint64_t first = take(4 * kMiB);
  port_->busy = true;
  EXPECT_EQ(memory_->free(first), CUDA_SUCCESS);
  EXPECT_EQ(memory_->used(), 0U);
  Allocation found;
  EXPECT_FALSE(memory_->find(first, &found));
  EXPECT_EQ(memory_->free(first), CUDA_ERROR_INVALID_VALUE);
  const uint64_t second = take(4 * kMiB);
  EXPECT_NE(second, first);
  EXPECT_EQ(port_->waits, 0);
  EXPECT_NE(take(56 * kMiB), 0U);
  EXPECT_EQ(port_->waits, 0);
  EXPECT_EQ(take(4 * kMiB), first);  // nothing else is left: waits for the fence
  EXPECT_EQ(port_->waits, 1);
  EXPECT_EQ(port_->fences, 1U);
}

TEST_F(DeviceMemoryTest, ManyFreesShareAFence) {
  open(64 * kMiB);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(take(512));
  port_->busy = true;
  for (const uint64_t block : blocks) memory_->free(block);
  EXPECT_LE(port_->fences, 4U);
  port_->retired_ = port_->fences;
  EXPECT_NE(take(512), 0U);
  EXPECT_EQ(port_->waits, 0);
}

TEST_F(DeviceMemoryTest, ADeadSessionEndsTheWait) {
  open(4 * kMiB);
  const uint64_t block = take(4 * kMiB);
  port_->busy = true;
  memory_->free(block);
  port_->alive = false;
  uint64_t address = 0;
  const CUresult result = memory_->allocate(4 * kMiB, 7, &address);
  EXPECT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(port_->waits, 1);
}

TEST_F(DeviceMemoryTest, ContextsEndWithTheirBlocks) {
  open(64 * kMiB);
  const uint64_t mine = take(1000), also = take(10 * kMiB);
  uint64_t other = 0;
  ASSERT_EQ(memory_->allocate(100, 8, &other), CUDA_SUCCESS);
  memory_->add_foreign(0x1000, 64, 7);
  memory_->free_all_of(7);
  Allocation found;
  EXPECT_FALSE(memory_->find(mine, &found));
  EXPECT_FALSE(memory_->find(also, &found));
  EXPECT_FALSE(memory_->find(0x1000, &found));
  EXPECT_TRUE(memory_->find(other, &found));
  EXPECT_EQ(memory_->used(), 2 * kMiB);
}

TEST_F(DeviceMemoryTest, LentSlabsAreUsedInsideTheirBoundsOnly) {
  open(512 * kMiB, MemoryMode::kLent);
  std::mt19937_64 random(3);
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  for (int i = 0; i < 200; ++i) {
    const uint64_t bytes = 1 + random() % (i % 10 == 0 ? 8 * kMiB : 100'000);
    blocks.emplace_back(take(bytes), bytes);
  }
  for (const auto& [address, bytes] : blocks) {
    auto it = port_->ranges.upper_bound(address);
    ASSERT_NE(it, port_->ranges.begin());
    --it;
    EXPECT_LE(address + bytes, it->first + it->second);
    EXPECT_EQ(memory_->free(address), CUDA_SUCCESS);
  }
  EXPECT_EQ(memory_->used(), 0U);
}

TEST_F(DeviceMemoryTest, ForwardedModeTracksWhatTheDriverGave) {
  open(64 * kMiB, MemoryMode::kForwarded);
  const uint64_t block = take(1000);
  EXPECT_EQ(port_->forwarded, 1);
  Allocation found;
  EXPECT_TRUE(memory_->find(block + 999, &found));
  EXPECT_EQ(memory_->used(), 1024U);
  EXPECT_EQ(memory_->free(block), CUDA_SUCCESS);
  EXPECT_EQ(memory_->free(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(port_->forwarded, 0);
}

TEST_F(DeviceMemoryTest, ForwardedBlocksEndWithTheirContext) {
  open(64 * kMiB, MemoryMode::kForwarded);
  const uint64_t block = take(1000);
  (void)take(4 * kMiB);
  memory_->add_foreign(0x7100'0000'0000, 256, 7);  // a variable, which is its module's
  memory_->free_all_of(8);
  EXPECT_EQ(port_->forwarded, 2) << "another's";
  memory_->free_all_of(7);
  EXPECT_EQ(port_->forwarded, 0);
  EXPECT_EQ(memory_->used(), 0U);
  Allocation found;
  EXPECT_FALSE(memory_->find(block, &found));
  EXPECT_FALSE(memory_->find(0x7100'0000'0000, &found));
}

TEST_F(DeviceMemoryTest, FragmentsMakeRoomForALargeBlock) {
  open(64 * kMiB);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(take(4 * kMiB));
  for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_EQ(memory_->free(blocks[i]), CUDA_SUCCESS);
  const uint64_t large = take(32 * kMiB);
  EXPECT_TRUE(port_->backs(large, 32 * kMiB));
  EXPECT_EQ(port_->unmaps, 8);
  EXPECT_EQ(port_->waits, 0);
  uint64_t address = 0;
  EXPECT_EQ(memory_->allocate(2 * kMiB, 7, &address), CUDA_ERROR_OUT_OF_MEMORY);
  for (size_t i = 1; i < blocks.size(); i += 2) {
    EXPECT_TRUE(port_->backs(blocks[i], 4 * kMiB));
    EXPECT_EQ(memory_->free(blocks[i]), CUDA_SUCCESS);
  }
  EXPECT_EQ(memory_->free(large), CUDA_SUCCESS);
  EXPECT_NE(take(64 * kMiB), 0U);
  EXPECT_EQ(port_->backed.size() * kChunkBytes, 64 * kMiB);
}

TEST_F(DeviceMemoryTest, UnusedCreditAndTheEndOfTheRangeComeBack) {
  open(64 * kMiB);
  (void)port_->request_credit(64 * kMiB);
  const uint64_t block = take(16 * kMiB);
  EXPECT_TRUE(memory_->reclaim(1 * kMiB));
  EXPECT_EQ(port_->returned, 48 * kMiB);
  EXPECT_EQ(memory_->free(block), CUDA_SUCCESS);
  memory_->give_back_free();
  EXPECT_EQ(port_->released, 16 * kMiB);
  EXPECT_EQ(take(4 * kMiB), block) << "the same addresses again";
}

TEST_F(DeviceMemoryTest, WholeSlabsGoBack) {
  open(256 * kMiB, MemoryMode::kLent);
  port_->next_slab = 0x7000'0000'0000;
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(take(60 * kMiB));
  for (const uint64_t block : blocks) EXPECT_EQ(memory_->free(block), CUDA_SUCCESS);
  EXPECT_NE(take(240 * kMiB), 0U);
}

TEST_F(DeviceMemoryTest, ManyThreadsTakeAndGiveAtOnce) {
  open(256 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937_64 random(t);
      std::vector<uint64_t> mine;
      for (int i = 0; i < 20'000; ++i) {
        uint64_t address = 0;
        if (mine.size() < 20 &&
            memory_->allocate(1 + random() % 300'000, 7, &address) == CUDA_SUCCESS) {
          Allocation found;
          ASSERT_TRUE(memory_->find(address, &found));
          ASSERT_EQ(found.address, address);
          mine.push_back(address);
        } else if (!mine.empty()) {
          ASSERT_EQ(memory_->free(mine.back()), CUDA_SUCCESS);
          mine.pop_back();
        }
      }
      for (const uint64_t address : mine) ASSERT_EQ(memory_->free(address), CUDA_SUCCESS);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(memory_->used(), 0U);
}

}  // namespace
}  // namespace vgpu::shim
