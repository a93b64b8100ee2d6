// The allocator of device memory against a model that knows nothing of how it works.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/device_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace vgpu::shim {
namespace {

constexpr uint64_t kBase = 0x2000'0000'0000, kMiB = uint64_t{1} << 20;

// A worker whose device finishes work when the test says so.
class FakePort : public MemoryPort {
 public:
  explicit FakePort(uint64_t limit) : limit_(limit) {}
  uint64_t credit() override { return credit_; }
  CUresult request_credit(uint64_t total) override {
    ++credit_requests;
    if (total > limit_) return CUDA_ERROR_OUT_OF_MEMORY;
    credit_ = total;
    return CUDA_SUCCESS;
  }
  void map(uint64_t address, uint64_t bytes) override {
    EXPECT_LE(mapped + bytes, credit_);
    EXPECT_EQ(address % kChunkBytes, 0U);
    EXPECT_EQ(bytes % kChunkBytes, 0U);
    for (uint64_t at = address; at < address + bytes; at += kChunkBytes)
      EXPECT_TRUE(backed.insert(at).second);
    ranges[address] = bytes;
    mapped += bytes;
  }
  CUresult unmap(uint64_t address, uint64_t bytes) override {
    ++unmaps;
    for (uint64_t at = address; at < address + bytes; at += kChunkBytes)
      EXPECT_EQ(backed.erase(at), 1U);
    released += bytes;
    limit_ += bytes;
    return CUDA_SUCCESS;
  }
  void return_credit(uint64_t bytes) override { returned += bytes; }
  CUresult take_back(uint64_t address, uint64_t lent) override {
    EXPECT_EQ(ranges.erase(address), 1U);
    mapped -= lent;
    return CUDA_SUCCESS;
  }
  CUresult lend(uint64_t bytes, uint64_t* address, uint64_t* lent) override {
    if (mapped + bytes > limit_) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = next_slab;
    *lent = bytes;
    ranges.emplace(next_slab, bytes);
    next_slab += bytes + 64 * kMiB;
    mapped += bytes;
    return CUDA_SUCCESS;
  }
  CUresult allocate(uint64_t bytes, uint64_t* address) override {
    *address = next_slab;
    next_slab += (bytes + 511) / 512 * 512;
    ++forwarded;
    return CUDA_SUCCESS;
  }
  CUresult release(uint64_t) override {
    --forwarded;
    return CUDA_SUCCESS;
  }
  bool idle() override { return !busy; }
  uint64_t fence() override { return ++fences; }
  uint64_t retired() override { return retired_; }
  bool wait_retired(uint64_t number) override {
    ++waits;
    if (number > retired_) retired_ = number;
    return alive;
  }

  // Whether all of a block has memory behind it now.
  bool backs(uint64_t address, uint64_t bytes) const {
    for (uint64_t at = address / kChunkBytes * kChunkBytes; at < address + bytes; at += kChunkBytes)
      if (backed.count(at) == 0) return false;
    return true;
  }

  std::set<uint64_t> backed;  // by chunk
  std::map<uint64_t, uint64_t> ranges;
  uint64_t mapped = 0, fences = 0, retired_ = 0;
  uint64_t released = 0, returned = 0;
  uint64_t next_slab = 0x7000'0010'0000;  // not where chunks begin
  int credit_requests = 0, waits = 0, forwarded = 0, unmaps = 0;
  bool busy = false, alive = true;

 private:
  uint64_t limit_, credit_ = 0;
};

class DeviceMemoryTest : public testing::Test {
 protected:
  void open(uint64_t grant, MemoryMode mode = MemoryMode::kMapped) {
    port_ = std::make_unique<FakePort>(grant);
    memory_ = std::make_unique<DeviceMemory>(
        *port_, DeviceMemory::Options{mode, kBase, uint64_t{8} << 40, grant});
    ASSERT_TRUE(memory_->open().ok());
  }
  uint64_t take(uint64_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(memory_->allocate(bytes, 7, &address), CUDA_SUCCESS) << bytes;
    return address;
  }
  std::unique_ptr<FakePort> port_;
  std::unique_ptr<DeviceMemory> memory_;
};

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

// The model: live ranges in a map, and what the accounting rule says of them.
struct Model {
  std::map<uint64_t, uint64_t> live;
  uint64_t used() const {
    std::map<uint64_t, int> chunks;
    uint64_t sum = 0;
    for (const auto& [address, bytes] : live) {
      if (bytes >= kChunkBytes) {
        sum += (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
      } else {
        chunks[address / kChunkBytes] = 1;
      }
    }
    return sum + chunks.size() * kChunkBytes;
  }
  void add(uint64_t address, uint64_t bytes) {
    const auto after = live.lower_bound(address);
    if (after != live.end()) {
      ASSERT_LE(address + bytes, after->first);
    }
    if (after != live.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second, address);
    }
    live.emplace(address, bytes);
  }
};

TEST_F(DeviceMemoryTest, AMillionRandomStepsAgreeWithTheModel) {
  constexpr uint64_t kGrant = 256 * kMiB;
  open(kGrant);
  Model model;
  std::vector<uint64_t> order;
  std::mt19937_64 random(20261130);
  int refused = 0;
  for (int step = 0; step < 1'000'000; ++step) {
    if (random() % 64 == 0) port_->busy = !port_->busy;
    if (random() % 16 == 0) port_->retired_ = port_->fences;
    if (order.size() < 400 && (order.empty() || random() % 100 < 52)) {
      const uint64_t kind = random() % 100;
      const uint64_t limit = kind < 80 ? 20'000 : kind < 97 ? 1'900'000 : 24 * kMiB;
      const uint64_t bytes = 1 + random() % limit;
      uint64_t address = 0;
      const CUresult result = memory_->allocate(bytes, 7, &address);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        ++refused;
        continue;
      }
      ASSERT_EQ(result, CUDA_SUCCESS);
      ASSERT_EQ(address % 512, 0U);
      ASSERT_TRUE(port_->backs(address, bytes));
      model.add(address, bytes);
      order.push_back(address);
    } else {
      const size_t which = random() % order.size();
      const uint64_t address = order[which];
      order[which] = order.back();
      order.pop_back();
      ASSERT_EQ(memory_->free(address), CUDA_SUCCESS);
      model.live.erase(address);
      if (step % 50 == 0) {
        ASSERT_EQ(memory_->free(address), CUDA_ERROR_INVALID_VALUE);
      }
    }
    if (step % 1000 == 0) {
      ASSERT_EQ(memory_->used(), model.used());
    }
    ASSERT_LE(port_->backed.size() * kChunkBytes, kGrant);
  }
  EXPECT_GT(refused, 0);
  for (const uint64_t address : order) ASSERT_EQ(memory_->free(address), CUDA_SUCCESS);
  EXPECT_EQ(memory_->used(), 0U);
  port_->busy = false;
  EXPECT_NE(take(kGrant), 0U);  // everything came together again
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
