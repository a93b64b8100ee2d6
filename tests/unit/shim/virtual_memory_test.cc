// What the application maps itself, and blocks that other processes have.
// SPDX-License-Identifier: Apache-2.0
#include "shim/memory/virtual_memory.h"

#include <gtest/gtest.h>

#include "tests/unit/shim/device_memory_support.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kStep = 2 * kMiB;

TEST(FreeRanges, WhatIsGivenBackJoins) {
  FreeRanges ranges(kBase, 8 * kStep);
  EXPECT_EQ(ranges.take_anywhere(3 * kStep, kStep), kBase);
  EXPECT_TRUE(ranges.take(kBase + 4 * kStep, kStep));
  EXPECT_FALSE(ranges.take(kBase + 4 * kStep, kStep));
  EXPECT_FALSE(ranges.take(kBase + 2 * kStep, 2 * kStep));
  EXPECT_FALSE(ranges.take(kBase + 7 * kStep, 2 * kStep)) << "beyond the end";
  EXPECT_EQ(ranges.take_anywhere(4 * kStep, kStep), 0U);
  ranges.give(kBase + 4 * kStep, kStep);
  ranges.give(kBase, 3 * kStep);
  EXPECT_EQ(ranges.take_anywhere(8 * kStep, kStep), kBase);
}

TEST(FreeRanges, AlignmentLeavesTheRestFree) {
  FreeRanges ranges(kBase + kStep, 15 * kStep);
  EXPECT_EQ(ranges.take_anywhere(kStep, 8 * kStep), kBase + 8 * kStep);
  EXPECT_EQ(ranges.take_anywhere(7 * kStep, kStep), kBase + kStep);
  EXPECT_EQ(ranges.take_anywhere(7 * kStep, kStep), kBase + 9 * kStep);
  EXPECT_EQ(ranges.take_anywhere(kStep, kStep), 0U);
}

TEST(VirtualMemoryTest, MemoryGoesWithItsLastUse) {
  VirtualMemory memory(kBase, 64 * kStep);
  uint64_t address = 0, again = 0;
  ASSERT_EQ(memory.reserve(8 * kStep, 0, 0, &address), CUDA_SUCCESS);
  const uint64_t handle = memory.add(2 * kStep, 0);
  ASSERT_EQ(memory.map(address, 2 * kStep, handle), CUDA_SUCCESS);
  EXPECT_EQ(memory.map(address + kStep, 2 * kStep, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.map(address + 7 * kStep, 2 * kStep, handle), CUDA_ERROR_INVALID_VALUE);
  bool gone = true;
  EXPECT_EQ(memory.release(handle, &gone), CUDA_SUCCESS);
  EXPECT_FALSE(gone) << "still mapped";
  EXPECT_EQ(memory.release(handle, &gone), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.map(address + 4 * kStep, 2 * kStep, handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(memory.retain(address + 3 * kStep / 2, &again), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_TRUE(memory.unmap(address, 2 * kStep).empty());
  EXPECT_EQ(memory.created(), 2 * kStep);
  EXPECT_EQ(memory.release(handle, &gone), CUDA_SUCCESS);
  EXPECT_TRUE(gone);
  EXPECT_EQ(memory.created(), 0U);
}

TEST(VirtualMemoryTest, OnlyOpenMemoryIsFound) {
  VirtualMemory memory(kBase, 64 * kStep);
  uint64_t address = 0;
  ASSERT_EQ(memory.reserve(4 * kStep, 0, 0, &address), CUDA_SUCCESS);
  const uint64_t first = memory.add(kStep, 0), second = memory.add(kStep, 0);
  ASSERT_EQ(memory.map(address, kStep, first), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(address + kStep, kStep, second), CUDA_SUCCESS);
  VirtualMemory::Found found;
  EXPECT_FALSE(memory.find(address, &found));
  memory.set_access(address, 2 * kStep, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_TRUE(memory.find(address + 5, &found));
  EXPECT_EQ(found.address, address);
  EXPECT_EQ(found.bytes, 2 * kStep) << "side by side";
  memory.set_access(address + kStep, kStep, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_FALSE(memory.find(address + kStep, &found));
  EXPECT_EQ(memory.unreserve(address, 4 * kStep), CUDA_ERROR_INVALID_VALUE);
}

TEST(VirtualMemoryTest, MemoryOfSeveralDevices) {
  VirtualMemory memory(kBase, 64 * kStep);
  uint64_t address = 0;
  ASSERT_EQ(memory.reserve(4 * kStep, 0, 0, &address), CUDA_SUCCESS);
  const uint64_t first = memory.add(kStep, 0, 0), second = memory.add(kStep, 0, 1);
  EXPECT_EQ(memory.created(0), kStep);
  EXPECT_EQ(memory.created(1), kStep);
  ASSERT_EQ(memory.map(address, kStep, first), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(address + kStep, kStep, second), CUDA_SUCCESS);
  EXPECT_FALSE(memory.all_owners(address, 2 * kStep, [](int device) { return device == 0; }));
  EXPECT_TRUE(memory.all_owners(address, kStep, [](int device) { return device == 0; }));
  memory.set_access(address, kStep, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 0);
  memory.set_access(address + kStep, kStep, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 1);
  VirtualMemory::Found found;
  ASSERT_TRUE(memory.find(address, &found));
  EXPECT_EQ(found.bytes, kStep) << "no device may use both";
  ASSERT_TRUE(memory.find(address + kStep, &found));
  EXPECT_EQ(found.device, 1);
  memory.set_access(address + kStep, kStep, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, 0);
  ASSERT_TRUE(memory.find(address, &found));
  EXPECT_EQ(found.bytes, 2 * kStep);
  VirtualPlace place;
  ASSERT_TRUE(memory.look(address + kStep, &place));
  EXPECT_EQ(place.device, 1);
  EXPECT_EQ(place.flags[1], CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(place.flags[2], CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(memory.unmap(address, 2 * kStep).size(), 0U) << "the handles still hold them";
}

TEST(VirtualMemoryTest, MemoryOfOthersIsFoundWhereItIsToBeUsed) {
  VirtualMemory memory(kBase, 64 * kStep);
  const uint64_t address = memory.reserve_for_peer(2 * kStep);
  memory.add_peer(address, 2 * kStep, 512, 1024, 9);
  VirtualMemory::Found found;
  EXPECT_FALSE(memory.find(address + 511, &found));
  EXPECT_TRUE(memory.find(address + 512, &found));
  EXPECT_TRUE(memory.find(address + 1535, &found));
  EXPECT_FALSE(memory.find(address + 1536, &found));
  EXPECT_EQ(found.context, 9U);
  VirtualPlace place;
  EXPECT_FALSE(memory.look(address + 512, &place)) << "no reservation of the application";
  uint64_t whole = 0, bytes = 0;
  EXPECT_FALSE(memory.remove_peer(address, &whole, &bytes));
  EXPECT_TRUE(memory.remove_peer(address + 512, &whole, &bytes));
  EXPECT_EQ(whole, address);
  EXPECT_EQ(bytes, 2 * kStep);
}

// What others have open is not given to anybody else.
TEST_F(DeviceMemoryTest, SharedBlocksLoseTheirMemory) {
  open(64 * kMiB);
  const uint64_t shared = take(4 * kMiB), next = take(4 * kMiB);
  Allocation found;
  EXPECT_EQ(memory_->share(shared + 100, &found), CUDA_SUCCESS);
  EXPECT_EQ(found.address, shared);
  const uint64_t id = found.id;
  port_->busy = true;
  EXPECT_EQ(memory_->free(shared), CUDA_SUCCESS);
  EXPECT_GE(port_->waits, 1) << "for work that uses it";
  EXPECT_EQ(port_->unshared, std::vector<uint64_t>{id});
  EXPECT_FALSE(port_->backs(shared, 4 * kMiB));
  EXPECT_TRUE(port_->backs(next, 4 * kMiB));
  EXPECT_EQ(memory_->free(shared), CUDA_ERROR_INVALID_VALUE);
  // Its place in the quota is free again.
  port_->busy = false;
  EXPECT_NE(take(32 * kMiB), 0U);
}

TEST_F(DeviceMemoryTest, SmallSharedBlocksAreRevoked) {
  open(64 * kMiB);
  const uint64_t shared = take(1000);
  Allocation found;
  EXPECT_EQ(memory_->share(shared, &found), CUDA_SUCCESS);
  EXPECT_EQ(memory_->free(shared), CUDA_SUCCESS);
  EXPECT_EQ(port_->unshared.size(), 1U);
  EXPECT_EQ(memory_->share(shared, &found), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceMemoryTest, SharedBlocksEndWithTheirContext) {
  open(64 * kMiB);
  const uint64_t shared = take(4 * kMiB);
  Allocation found;
  EXPECT_EQ(memory_->share(shared, &found), CUDA_SUCCESS);
  memory_->free_all_of(7);
  EXPECT_EQ(port_->unshared.size(), 1U);
  EXPECT_FALSE(port_->backs(shared, 4 * kMiB));
}

TEST_F(DeviceMemoryTest, OnlyMappedMemoryIsShared) {
  open(256 * kMiB, MemoryMode::kLent);
  const uint64_t block = take(4 * kMiB);
  Allocation found;
  EXPECT_EQ(memory_->share(block, &found), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_FALSE(memory_->can_share(block));
}

}  // namespace
}  // namespace vgpu::shim
