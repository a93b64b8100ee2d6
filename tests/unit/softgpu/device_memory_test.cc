// MemorySpace: placement, the ledger, and what becomes of freed memory.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "softgpu/exec/memory_space.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class MemorySpaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceConfig config = read_device_config();
    config.segment_path.clear();
    config.memory_bytes = 64 * kMiB;
    segment_ = std::move(DeviceSegment::open(config)).value();
    memory_ = std::move(MemorySpace::create(segment_.get())).value();
  }
  uint64_t allocate(uint64_t bytes) { return memory_->allocate(bytes, MemoryKind::kDevice, 7); }

  // Whether the first byte can be read, asked of the kernel: write(2) from it gives EFAULT.
  static bool readable(uint64_t address) {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    const bool good = ::write(ends[1], reinterpret_cast<const void*>(address), 1) == 1;
    ::close(ends[0]);
    ::close(ends[1]);
    return good;
  }

  std::unique_ptr<DeviceSegment> segment_;
  std::unique_ptr<MemorySpace> memory_;
};

TEST_F(MemorySpaceTest, AlignedApartAndWritable) {
  std::vector<uint64_t> blocks;
  for (const uint64_t bytes : {1, 511, 512, 513, 70000, 1 << 20, (1 << 20) + 1, 3 << 20}) {
    const uint64_t address = allocate(bytes);
    ASSERT_NE(address, 0u);
    EXPECT_EQ(address % kSmallAlignment, 0u);
    std::memset(reinterpret_cast<void*>(address), 0x5a, bytes);
    blocks.push_back(address);
  }
  for (const uint64_t address : blocks) {
    EXPECT_EQ(*reinterpret_cast<uint8_t*>(address), 0x5a);
    EXPECT_TRUE(memory_->free(address));
    EXPECT_FALSE(memory_->free(address)) << "freed twice";
  }
  EXPECT_EQ(segment_->used_bytes(), 0u);
}

TEST_F(MemorySpaceTest, LargeBlocksEndAtTheirPageAndFaultOnceFreed) {
  const uint64_t bytes = 2 * kMiB + 4096;
  const uint64_t address = allocate(bytes);
  EXPECT_TRUE(readable(address));
  EXPECT_TRUE(readable(address + bytes - 1));
  EXPECT_FALSE(readable(address + bytes));
  ASSERT_TRUE(memory_->free(address));
  EXPECT_FALSE(readable(address));
}

TEST_F(MemorySpaceTest, OutOfMemoryIsExact) {
  std::vector<uint64_t> blocks;
  for (uint64_t address; (address = allocate(2 * kMiB)) != 0;) blocks.push_back(address);
  EXPECT_EQ(blocks.size(), 32u);
  EXPECT_EQ(allocate(1), 0u);
  ASSERT_TRUE(memory_->free(blocks.back()));
  EXPECT_NE(allocate(1), 0u);
  EXPECT_EQ(allocate(2 * kMiB), 0u) << "the small block's chunk took the room";
}

TEST_F(MemorySpaceTest, RandomUseNeverOverlapsAndComesBack) {
  std::mt19937 random(4711);
  std::map<uint64_t, uint64_t> held;
  for (int step = 0; step < 20000; ++step) {
    if (held.size() < 60 && random() % 2 == 0) {
      const uint64_t bytes = random() % 5 == 0 ? random() % (2 * kMiB) + 1 : random() % 5000 + 1;
      const uint64_t address = allocate(bytes);
      if (address == 0) continue;
      const auto next = held.lower_bound(address);
      if (next != held.end()) {
        ASSERT_LE(address + bytes, next->first);
      }
      if (next != held.begin()) {
        const auto& [base, size] = *std::prev(next);
        ASSERT_LE(base + size, address);
      }
      held[address] = bytes;
    } else if (!held.empty()) {
      auto victim = held.begin();
      std::advance(victim, random() % held.size());
      ASSERT_TRUE(memory_->free(victim->first));
      held.erase(victim);
    }
  }
  for (const auto& [address, bytes] : held) ASSERT_TRUE(memory_->free(address));
  EXPECT_EQ(segment_->used_bytes(), 0u);
}

TEST_F(MemorySpaceTest, FindsTheBlockOfAnInnerPointer) {
  const uint64_t address = allocate(1000);
  const auto range = memory_->find(address + 999);
  ASSERT_TRUE(range.has_value());
  EXPECT_EQ(range->base, address);
  EXPECT_EQ(range->bytes, 1000u);
  EXPECT_FALSE(memory_->find(address + 1000).has_value());
  EXPECT_FALSE(memory_->find(0).has_value());
  EXPECT_FALSE(memory_->find(UINT64_MAX).has_value());
  EXPECT_TRUE(memory_->covers(address, 1000));
  EXPECT_FALSE(memory_->covers(address, 1001));
  EXPECT_FALSE(memory_->covers(address + 1, UINT64_MAX));
}

TEST_F(MemorySpaceTest, OwnersBlocksGoTogether) {
  const uint64_t mine = memory_->allocate(100, MemoryKind::kModule, 1);
  const uint64_t other = memory_->allocate(100, MemoryKind::kDevice, 2);
  const uint64_t host = memory_->allocate_host(5000, 0, 1);
  memory_->free_owned_by(1);
  EXPECT_FALSE(memory_->find(mine).has_value());
  EXPECT_FALSE(memory_->find(host).has_value());
  EXPECT_FALSE(readable(host));
  EXPECT_TRUE(memory_->find(other).has_value());
}

TEST_F(MemorySpaceTest, RegisteredHostMemory) {
  std::vector<char> pages(64 << 10);
  const uint64_t base = reinterpret_cast<uint64_t>(pages.data());
  using Registration = MemorySpace::Registration;
  EXPECT_EQ(memory_->register_host(base, 1000, 0, 1), Registration::kDone);
  EXPECT_EQ(memory_->register_host(base, 1000, 0, 1), Registration::kAlready);
  EXPECT_EQ(memory_->register_host(base + 999, 10, 0, 1), Registration::kAlready);
  EXPECT_EQ(memory_->register_host(base + 1000, 10, 0, 1), Registration::kDone);
  EXPECT_EQ(memory_->register_host(4096, 10, 0, 1), Registration::kInvalid) << "nothing there";
  EXPECT_EQ(memory_->register_host(base + 2000, UINT64_MAX, 0, 1), Registration::kInvalid);
  EXPECT_FALSE(memory_->unregister_host(base + 1));
  EXPECT_TRUE(memory_->unregister_host(base));
  EXPECT_FALSE(memory_->unregister_host(base));
}

// What is at an address later has a file of its own.
TEST_F(MemorySpaceTest, AFileGoesWithItsChunk) {
  const uint64_t first = allocate(kMiB), second = allocate(kMiB), third = allocate(kMiB);
  ASSERT_NE(first / kChunkBytes, third / kChunkBytes);
  ASSERT_EQ(first / kChunkBytes, second / kChunkBytes);
  MemorySpace::SharedBlock before, after;
  ASSERT_TRUE(memory_->share(third, &before));
  EXPECT_TRUE(memory_->free(first));
  EXPECT_TRUE(memory_->free(second)) << "their chunk is kept";
  EXPECT_TRUE(memory_->free(third));
  uint64_t again = 0;
  for (int i = 0; i < 8 && again != third; ++i) again = allocate(kMiB);
  ASSERT_EQ(again, third) << "the address is used again";
  ASSERT_TRUE(memory_->share(again, &after));
  EXPECT_FALSE(after.secret == before.secret);
}

}  // namespace
}  // namespace vgpu::softgpu
