// Occupancy against values that NVIDIA's occupancy calculator gives.
// SPDX-License-Identifier: Apache-2.0
#include "shim/occupancy_model.h"

#include <gtest/gtest.h>

namespace vgpu::shim {
namespace {

// Compute capability 8.0: 64 warps, 32 blocks, 164 KiB of shared memory, 1 KiB of it reserved per
// block.
MultiprocessorLimits ampere() {
  MultiprocessorLimits limits;
  limits.compute_major = 8;
  limits.shared_bytes = 164 * 1024;
  limits.shared_per_block_max = 48 * 1024;
  limits.shared_per_block_optin_max = 163 * 1024;
  limits.shared_reserved_per_block = 1024;
  return limits;
}

// Compute capability 7.5: 32 warps, 16 blocks, 64 KiB of shared memory.
MultiprocessorLimits turing() {
  MultiprocessorLimits limits;
  limits.compute_major = 7;
  limits.threads_max = 1024;
  limits.blocks_max = 16;
  limits.shared_bytes = 64 * 1024;
  limits.shared_per_block_max = 48 * 1024;
  limits.shared_per_block_optin_max = 64 * 1024;
  return limits;
}

int blocks(const MultiprocessorLimits& limits, int threads, int registers, int shared) {
  KernelDemand kernel;
  kernel.registers = registers;
  kernel.dynamic_shared_max = limits.shared_per_block_optin_max;
  return active_blocks(limits, kernel, threads, static_cast<uint64_t>(shared));
}

TEST(OccupancyModel, WarpsAndBlocksLimit) {
  EXPECT_EQ(blocks(ampere(), 256, 32, 0), 8);
  EXPECT_EQ(blocks(ampere(), 1024, 32, 0), 2);
  EXPECT_EQ(blocks(ampere(), 32, 16, 0), 32);
  EXPECT_EQ(blocks(ampere(), 33, 16, 0), 32);
  EXPECT_EQ(blocks(turing(), 256, 32, 0), 4);
  EXPECT_EQ(blocks(turing(), 32, 32, 0), 16);
}

TEST(OccupancyModel, RegistersLimit) {
  EXPECT_EQ(blocks(ampere(), 256, 64, 0), 4);
  EXPECT_EQ(blocks(ampere(), 256, 65, 0), 3);  // rounds to 72 a thread: 28 warps
  EXPECT_EQ(blocks(ampere(), 256, 128, 0), 2);
  EXPECT_EQ(blocks(ampere(), 256, 255, 0), 1);
  EXPECT_EQ(blocks(ampere(), 1024, 65, 0), 0);  // 1,024 threads of 72 do not fit 65,536
  EXPECT_EQ(blocks(turing(), 128, 168, 0), 3);  // 12 warps of 5,376
}

TEST(OccupancyModel, SharedMemoryLimit) {
  EXPECT_EQ(blocks(ampere(), 128, 32, 48 * 1024), 3);
  EXPECT_EQ(blocks(ampere(), 128, 32, 100 * 1024), 1);
  EXPECT_EQ(blocks(ampere(), 128, 32, 163 * 1024), 1);
  EXPECT_EQ(blocks(ampere(), 128, 32, 163 * 1024 + 1), 0);
  EXPECT_EQ(blocks(turing(), 128, 32, 16 * 1024), 4);
  EXPECT_EQ(blocks(turing(), 128, 32, 16 * 1024 + 1), 3);
}

TEST(OccupancyModel, BeyondTheDefaultNeedsOptingIn) {
  KernelDemand kernel;
  kernel.registers = 32;
  EXPECT_EQ(active_blocks(ampere(), kernel, 128, 48 * 1024), 3);
  EXPECT_EQ(active_blocks(ampere(), kernel, 128, 48 * 1024 + 1), 0);
  kernel.dynamic_shared_max = 64 * 1024;
  EXPECT_EQ(active_blocks(ampere(), kernel, 128, 64 * 1024), 2);
}

TEST(OccupancyModel, TooManyThreadsFitNowhere) {
  KernelDemand kernel;
  kernel.registers = 16;
  kernel.threads_per_block_max = 512;
  EXPECT_EQ(active_blocks(ampere(), kernel, 513, 0), 0);
  EXPECT_EQ(active_blocks(ampere(), kernel, 512, 0), 4);
}

TEST(OccupancyModel, AvailableSharedMemoryLetsTheBlocksBeResident) {
  KernelDemand kernel;
  kernel.registers = 32;
  kernel.static_shared_bytes = 1000;
  kernel.dynamic_shared_max = 162 * 1024;
  for (int count = 1; count <= 8; ++count) {
    const uint64_t bytes = available_dynamic_shared(ampere(), kernel, count, 128);
    ASSERT_GT(bytes, 0U);
    EXPECT_GE(active_blocks(ampere(), kernel, 128, bytes), count);
    if (count > 1) {
      EXPECT_LT(active_blocks(ampere(), kernel, 128, bytes + 129), count);
    }
  }
  EXPECT_EQ(available_dynamic_shared(ampere(), kernel, 17, 128), 0U);
}

}  // namespace
}  // namespace vgpu::shim
