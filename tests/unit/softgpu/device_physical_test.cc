// PhysicalMemory: reservations, mappings, and the zeroing of what is given back.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/physical_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/exec/address_range.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kUnit = kGranularity;

class PhysicalMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    DeviceConfig config = read_device_config();
    config.segment_path.clear();
    config.memory_bytes = 8 * kUnit;
    segment_ = std::move(DeviceSegment::open(config)).value();
    memory_ = std::move(PhysicalMemory::create(segment_.get())).value();
  }
  static volatile int& word(uint64_t address) { return *reinterpret_cast<volatile int*>(address); }

  std::unique_ptr<DeviceSegment> segment_;
  std::unique_ptr<PhysicalMemory> memory_;
};

TEST_F(PhysicalMemoryTest, HonoursAFreeHintAndAnswersWhenItIsTaken) {
  const uint64_t hint = 0x2400'0000'0000;
  const uint64_t first = memory_->reserve_addresses(16 * kUnit, 0, hint);
  if (kAddressesOfOurChoice) {
    EXPECT_EQ(first, hint);
  }
  const uint64_t second = memory_->reserve_addresses(16 * kUnit, 0, hint);
  EXPECT_NE(second, 0u);
  EXPECT_NE(second, hint);
  EXPECT_EQ(memory_->reserve_addresses(kUnit, 64 * kUnit, 0) % (64 * kUnit), 0u);
  EXPECT_FALSE(memory_->free_addresses(first, kUnit)) << "not the reserved size";
  EXPECT_TRUE(memory_->free_addresses(first, 16 * kUnit));
  EXPECT_FALSE(memory_->free_addresses(first, 16 * kUnit));
}

TEST_F(PhysicalMemoryTest, TwoMappingsShowTheSameMemory) {
  const uint64_t base = memory_->reserve_addresses(4 * kUnit, 0, 0);
  const auto offset = memory_->allocate(kUnit);
  ASSERT_TRUE(offset.has_value());
  ASSERT_TRUE(memory_->map(base, kUnit, *offset));
  ASSERT_TRUE(memory_->map(base + 2 * kUnit, kUnit, *offset));
  ASSERT_TRUE(memory_->protect(base, kUnit, PROT_READ | PROT_WRITE));
  ASSERT_TRUE(memory_->protect(base + 2 * kUnit, kUnit, PROT_READ | PROT_WRITE));
  word(base + 64) = 4711;
  EXPECT_EQ(word(base + 2 * kUnit + 64), 4711);
}

// Addresses are the process's: another device's memory is mapped where the first has reserved.
TEST_F(PhysicalMemoryTest, DevicesShareAddressesAndNothingElse) {
  const auto other = std::move(PhysicalMemory::create(segment_.get(), memory_.get())).value();
  const uint64_t base = memory_->reserve_addresses(4 * kUnit, 0, 0);
  const auto ours = memory_->allocate(kUnit), theirs = other->allocate(kUnit);
  ASSERT_EQ(*ours, *theirs) << "each counts for itself";
  ASSERT_TRUE(memory_->map(base, kUnit, *ours));
  EXPECT_FALSE(other->map(base, kUnit, *theirs)) << "taken";
  ASSERT_TRUE(other->map(base + kUnit, kUnit, *theirs));
  ASSERT_TRUE(memory_->protect(base, 2 * kUnit, PROT_READ | PROT_WRITE, 0));
  ASSERT_TRUE(memory_->protect(base, 2 * kUnit, PROT_NONE, 1)) << "of one device alone";
  word(base) = 1;
  word(base + kUnit) = 2;
  EXPECT_EQ(word(base), 1);
  EXPECT_TRUE(other->unmap(base, 2 * kUnit)) << "whoever's memory it is";
  EXPECT_EQ(other->bytes_of(*theirs), kUnit) << "its handle still holds it";
  EXPECT_TRUE(other->free_addresses(base, 4 * kUnit));
}

TEST_F(PhysicalMemoryTest, RefusesWhatDoesNotFit) {
  const uint64_t base = memory_->reserve_addresses(4 * kUnit, 0, 0);
  const auto offset = memory_->allocate(2 * kUnit);
  EXPECT_FALSE(memory_->map(base, kUnit, *offset)) << "part of an allocation";
  EXPECT_FALSE(memory_->map(base + 3 * kUnit, 2 * kUnit, *offset)) << "beyond the reservation";
  EXPECT_FALSE(memory_->map(base - kUnit, 2 * kUnit, *offset));
  ASSERT_TRUE(memory_->map(base, 2 * kUnit, *offset));
  EXPECT_FALSE(memory_->map(base + kUnit, 2 * kUnit, *offset)) << "in use";
  EXPECT_FALSE(memory_->free_addresses(base, 4 * kUnit)) << "still mapped";
  EXPECT_FALSE(memory_->unmap(base, kUnit)) << "part of a mapping";
  EXPECT_FALSE(memory_->protect(base, 3 * kUnit, PROT_READ)) << "half of it unmapped";
  EXPECT_TRUE(memory_->unmap(base, 2 * kUnit));
}

TEST_F(PhysicalMemoryTest, MemoryStaysWhileItIsMapped) {
  const uint64_t base = memory_->reserve_addresses(kUnit, 0, 0);
  const auto offset = memory_->allocate(kUnit);
  ASSERT_TRUE(memory_->map(base, kUnit, *offset));
  ASSERT_TRUE(memory_->protect(base, kUnit, PROT_READ | PROT_WRITE));
  word(base) = 1;
  memory_->release(*offset);  // the handle; the mapping still holds it
  EXPECT_EQ(word(base), 1);
  EXPECT_EQ(segment_->used_bytes(), kUnit);
  EXPECT_TRUE(memory_->unmap(base, kUnit));
  EXPECT_EQ(segment_->used_bytes(), 0u);
}

TEST_F(PhysicalMemoryTest, WhatComesBackIsZero) {
  const uint64_t base = memory_->reserve_addresses(8 * kUnit, 0, 0);
  for (int round = 0; round < 3; ++round) {
    const auto offset = memory_->allocate(8 * kUnit);
    ASSERT_TRUE(offset.has_value()) << round;
    EXPECT_FALSE(memory_->allocate(kUnit).has_value()) << "more than the device has";
    ASSERT_TRUE(memory_->map(base, 8 * kUnit, *offset));
    ASSERT_TRUE(memory_->protect(base, 8 * kUnit, PROT_READ | PROT_WRITE));
    EXPECT_EQ(word(base + 5 * kUnit), 0);
    word(base + 5 * kUnit) = -1;
    memory_->release(*offset);
    ASSERT_TRUE(memory_->unmap(base, 8 * kUnit));
  }
}

TEST_F(PhysicalMemoryTest, AFileIsTheSameMemory) {
  const uint64_t base = memory_->reserve_addresses(8 * kUnit, 0, 0);
  const auto made = memory_->allocate(2 * kUnit);
  ASSERT_TRUE(memory_->map(base, 2 * kUnit, *made));
  ASSERT_TRUE(memory_->protect(base, 2 * kUnit, PROT_READ | PROT_WRITE));
  word(base + 3 * kUnit / 2) = 5;
  const UniqueFd file(memory_->export_file(*made));
  ASSERT_TRUE(file.valid());
  EXPECT_EQ(word(base + 3 * kUnit / 2), 5) << "moved with all that it holds";
  word(base) = 6;
  const auto imported = memory_->import_file(file.get());
  ASSERT_TRUE(imported.has_value());
  EXPECT_EQ(memory_->bytes_of(*imported), 2 * kUnit);
  ASSERT_TRUE(memory_->map(base + 4 * kUnit, 2 * kUnit, *imported));
  ASSERT_TRUE(memory_->protect(base + 4 * kUnit, 2 * kUnit, PROT_READ | PROT_WRITE));
  EXPECT_EQ(word(base + 4 * kUnit), 6);
  EXPECT_EQ(segment_->used_bytes(), 2 * kUnit) << "counted once";
  EXPECT_TRUE(memory_->unmap(base, 2 * kUnit));
  EXPECT_TRUE(memory_->release(*made));
  EXPECT_EQ(word(base + 4 * kUnit), 6) << "it lives as long as anyone has it";
  EXPECT_EQ(segment_->used_bytes(), 0u);
}

TEST_F(PhysicalMemoryTest, OtherFilesAreNoMemory) {
  EXPECT_FALSE(memory_->import_file(-1).has_value());
  EXPECT_FALSE(memory_->import_file(0).has_value());
  const UniqueFd plain(::memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(plain.get(), static_cast<off_t>(kUnit + 4096)), 0);
  EXPECT_FALSE(memory_->import_file(plain.get()).has_value()) << "it could shrink";
  ASSERT_EQ(::fcntl(plain.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_FALSE(memory_->import_file(plain.get()).has_value()) << "it does not say that it is one";
}

}  // namespace
}  // namespace vgpu::softgpu
