// Occupancy: plausible, monotonous, refused for nonsense.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using OccupancyTest = KernelTest;

TEST_F(OccupancyTest, ActiveBlocks) {
  int small = 0, large = 0, threads = 0;
  CUfunction fill = function("fill");
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&small, fill, 64, 0));
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&large, fill, 1024, 0));
  ASSERT_OK(
      cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device_));
  EXPECT_GE(large, 1);
  EXPECT_GE(small, large);
  EXPECT_LE(large * 1024, threads);
  int flagged = 0;
  EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&flagged, fill, 64, 0, 0));
  EXPECT_EQ(flagged, small);
}

TEST_F(OccupancyTest, SharedMemoryLimits) {
  int without = 0, with = 0;
  CUfunction sum = function("sum");
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&without, sum, 32, 0));
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&with, sum, 32, 40 * 1024));
  EXPECT_LT(with, without);
  EXPECT_GE(with, 1);
}

TEST_F(OccupancyTest, BlockSize) {
  int grid = 0, block = 0;
  ASSERT_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function("fill"), nullptr, 0, 0));
  EXPECT_GE(grid, 1);
  EXPECT_GE(block, 32);
  EXPECT_EQ(block % 32, 0);
  ASSERT_OK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, function("fill"), nullptr, 0,
                                                      128, 0));
  EXPECT_LE(block, 128);
}

TEST_F(OccupancyTest, AvailableSharedMemory) {
  size_t bytes = 0;
  ASSERT_OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function("sum"), 1, 128));
  EXPECT_GE(bytes, size_t{32} << 10);
}

TEST_F(OccupancyTest, Clusters) {
  CUlaunchConfig launch = {};
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = 1;
  launch.blockDimX = 128;
  launch.blockDimY = launch.blockDimZ = 1;
  CUlaunchAttribute single = {};
  single.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  single.value.clusterDim.x = single.value.clusterDim.y = single.value.clusterDim.z = 1;
  launch.attrs = &single;
  launch.numAttrs = 1;
  int size = 0, clusters = 0, blocks = 0, multiprocessors = 0;
  EXPECT_OK(cuOccupancyMaxPotentialClusterSize(&size, function("fill"), &launch));
  EXPECT_GE(size, 1);
  ASSERT_OK(cuOccupancyMaxActiveClusters(&clusters, function("fill"), &launch));
  ASSERT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function("fill"), 128, 0));
  ASSERT_OK(
      cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_));
  EXPECT_EQ(clusters, blocks * multiprocessors) << "a cluster of one block is a block";
  EXPECT_CU(cuOccupancyMaxActiveClusters(&clusters, function("fill"), nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuOccupancyMaxPotentialClusterSize(nullptr, function("fill"), &launch),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuOccupancyMaxPotentialClusterSize(&size, garbage_handle<CUfunction>(), &launch),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(OccupancyTest, BadArguments) {
  int blocks = 0;
  EXPECT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function("fill"), 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, function("fill"), 32, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, garbage_handle<CUfunction>(), 32, 0),
      CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace vgpu::conformance
