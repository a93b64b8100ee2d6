// Memory pools and stream-ordered allocation.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class MempoolTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuDeviceGetDefaultMemPool(&pool_, device_));
  }
  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    set_threshold(0);
    EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
    EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
    KernelTest::TearDown();
  }
  uint64_t get(CUmemPool_attribute which, CUmemoryPool pool = nullptr) {
    cuuint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool == nullptr ? pool_ : pool, which, &value));
    return value;
  }
  void set_threshold(cuuint64_t bytes) {
    EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
  }
  CUdeviceptr allocate(size_t bytes, CUstream stream) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocAsync(&address, bytes, stream));
    return address;
  }
  CUmemPoolProps properties() const {
    CUmemPoolProps made = {};
    made.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    return made;
  }
  CUmemoryPool pool_ = nullptr;
};

TEST_F(MempoolTest, AttributeSaysSo) {
  int supported = 0, handles = -1;
  EXPECT_OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device_));
  EXPECT_EQ(supported, 1);
  EXPECT_OK(
      cuDeviceGetAttribute(&handles, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, device_));
  // Where cuMemCreate makes what can be exported, and memory of pools is made of it.
  int descriptors = -1;
  EXPECT_OK(cuDeviceGetAttribute(
      &descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device_));
  EXPECT_TRUE(handles == 0 ||
              (descriptors != 0 && handles == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

TEST_F(MempoolTest, WorkUsesTheMemory) {
  Stream stream;
  for (const size_t n : {size_t{1}, size_t{1000}, kMiB, 3 * kMiB + 5}) {
    const CUdeviceptr words = allocate(n * 4, stream);
    ASSERT_NE(words, 0U);
    EXPECT_EQ(words % 256, 0U);
    EXPECT_EQ(launch("fill", stream, words, static_cast<uint32_t>(n), 7), CUDA_SUCCESS);
    EXPECT_EQ(launch("add", stream, words, static_cast<uint32_t>(n), 5), CUDA_SUCCESS);
    std::vector<uint32_t> values(n);
    EXPECT_OK(cuMemcpyDtoHAsync_v2(values.data(), words, n * 4, stream));
    EXPECT_OK(cuMemFreeAsync(words, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(values, std::vector<uint32_t>(n, 12));
  }
}

TEST_F(MempoolTest, FreedMemoryIsUsedAgainInItsStreamAtOnce) {
  Stream stream;
  const Gate gate(function("gate"), stream);
  const CUdeviceptr first = allocate(8 * kMiB, stream);
  EXPECT_OK(cuMemFreeAsync(first, stream));
  EXPECT_EQ(allocate(8 * kMiB, stream), first);
  EXPECT_OK(cuMemFreeAsync(first, stream));
  const CUdeviceptr small = allocate(1000, stream);
  EXPECT_OK(cuMemFreeAsync(small, stream));
  EXPECT_EQ(allocate(1000, stream), small);
  EXPECT_OK(cuMemFreeAsync(small, stream));
}

// But not where every block is one of the driver's (VGPU_ALLOCATOR=forward).
TEST_F(MempoolTest, SmallerBlocksAreCutFromLargerOnes) {
  Stream stream;
  const Gate gate(function("gate"), stream);
  const CUdeviceptr first = allocate(8 * kMiB, stream);
  EXPECT_OK(cuMemFreeAsync(first, stream));
  const CUdeviceptr left = allocate(2 * kMiB, stream), right = allocate(6 * kMiB, stream);
  if (std::getenv("VGPU_ALLOCATOR") == nullptr) {
    EXPECT_EQ(left, first);
    EXPECT_EQ(right, first + 2 * kMiB);
    EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 * kMiB);
  }
  EXPECT_EQ(launch("fill", stream, left, kMiB / 2, 1), CUDA_SUCCESS);
  EXPECT_EQ(launch("fill", stream, right, kMiB / 2, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemFreeAsync(left, stream));
  EXPECT_OK(cuMemFreeAsync(right, stream));
}

TEST_F(MempoolTest, AnotherStreamMustFollow) {
  Stream first, second, third;
  Event event;
  {
    Gate gate(function("gate"), first);
    const CUdeviceptr block = allocate(4 * kMiB, first);
    EXPECT_EQ(launch("fill", first, block, 1000, 1), CUDA_SUCCESS);
    EXPECT_OK(cuMemFreeAsync(block, first));
    const CUdeviceptr other = allocate(4 * kMiB, second);
    EXPECT_NE(other, block);
    EXPECT_OK(cuEventRecord(event, first));
    EXPECT_OK(cuStreamWaitEvent(third, event, 0));
    EXPECT_EQ(allocate(4 * kMiB, third), block);
    EXPECT_OK(cuMemFreeAsync(block, third));
    EXPECT_OK(cuMemFreeAsync(other, second));
  }
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(MempoolTest, FreedMemoryIsLeftAloneUntilItsWorkIsPast) {
  Stream first, second;
  set_threshold(~cuuint64_t{0});
  const CUdeviceptr block = allocate(4 * kMiB, first);
  std::vector<uint32_t> values(1024);
  {
    Gate gate(function("gate"), first);
    EXPECT_EQ(launch("fill", first, block, 1024, 3), CUDA_SUCCESS);
    EXPECT_OK(cuMemcpyDtoDAsync_v2(block + kMiB, block, 4096, first));
    EXPECT_OK(cuMemFreeAsync(block, first));
    std::vector<CUdeviceptr> others;
    for (int i = 0; i < 4; ++i) others.push_back(allocate(4 * kMiB, second));
    for (const CUdeviceptr other : others) {
      EXPECT_NE(other, block);
      EXPECT_OK(cuMemsetD32Async(other, 9, kMiB, second));
      EXPECT_OK(cuMemFreeAsync(other, second));
    }
    EXPECT_OK(cuStreamSynchronize(second));
  }
  EXPECT_OK(cuStreamSynchronize(first));
}

TEST_F(MempoolTest, LegacyStreamAndBlockingStreamsFollowEachOther) {
  Stream blocking(CU_STREAM_DEFAULT);
  set_threshold(~cuuint64_t{0});
  const CUdeviceptr block = allocate(4 * kMiB, nullptr);
  EXPECT_OK(cuMemFreeAsync(block, nullptr));
  EXPECT_EQ(allocate(4 * kMiB, blocking), block);
  EXPECT_EQ(launch("fill", blocking, block, 1000, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemFreeAsync(block, blocking));
  EXPECT_EQ(allocate(4 * kMiB, nullptr), block);
  EXPECT_OK(cuMemFreeAsync(block, nullptr));
}

TEST_F(MempoolTest, ThresholdKeepsMemory) {
  Stream stream;
  const CUdeviceptr block = allocate(8 * kMiB, stream);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 8 * kMiB);
  EXPECT_OK(cuMemFreeAsync(block, stream));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
  EXPECT_GE(get(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 8 * kMiB);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
  EXPECT_GE(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 8 * kMiB);
  set_threshold(64 * kMiB);
  EXPECT_OK(cuMemFreeAsync(allocate(8 * kMiB, stream), stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 * kMiB);
  EXPECT_OK(cuMemPoolTrimTo(pool_, 16 * kMiB));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8 * kMiB);
  EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
}

TEST_F(MempoolTest, HighMarksStartAgain) {
  Stream stream;
  const CUdeviceptr block = allocate(4 * kMiB, stream);
  cuuint64_t zero = 0, one = 1;
  for (const auto which : {CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, CU_MEMPOOL_ATTR_USED_MEM_HIGH}) {
    EXPECT_CU(cuMemPoolSetAttribute(pool_, which, &one), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuMemPoolSetAttribute(pool_, which, &zero));
    EXPECT_EQ(get(which), 4 * kMiB);
  }
  EXPECT_CU(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeAsync(block, stream));
}

TEST_F(MempoolTest, PoolsOfTheirOwn) {
  Stream stream;
  CUmemPoolProps made = properties();
  CUmemoryPool pool = nullptr, current = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &made));
  CUdeviceptr block = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&block, 4 * kMiB, pool, stream));
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool), 4 * kMiB);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0U);
  CUmemoryPool owner = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block + 5));
  EXPECT_EQ(owner, pool);
  EXPECT_OK(cuDeviceSetMemPool(device_, pool));
  EXPECT_OK(cuDeviceGetMemPool(&current, device_));
  EXPECT_EQ(current, pool);
  const CUdeviceptr other = allocate(1000, stream);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, pool), 4 * kMiB + 1024);
  EXPECT_OK(cuMemPoolDestroy(pool));  // its blocks live on
  EXPECT_OK(cuDeviceGetMemPool(&current, device_));
  EXPECT_EQ(current, pool_);
  EXPECT_CU(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch("fill", stream, block, 1000, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemFreeAsync(block, stream));
  EXPECT_OK(cuMemFreeAsync(other, stream));
  EXPECT_CU(cuMemPoolDestroy(pool_), CUDA_ERROR_INVALID_VALUE);
}

// Neither ending a pool nor freeing its blocks afterwards waits for the work that may use them.
TEST_F(MempoolTest, EndingAPoolWaitsForNothing) {
  const Stream stream;
  CUmemPoolProps made = properties();
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &made));
  CUdeviceptr first = 0, second = 0, other = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&first, 4 * kMiB, pool, stream));
  ASSERT_OK(cuMemAllocFromPoolAsync(&second, 4 * kMiB, pool, stream));
  {
    const Gate gate(function("gate"), stream);
    EXPECT_EQ(launch("fill", stream, first, 1000, 1), CUDA_SUCCESS);
    EXPECT_OK(cuMemFreeAsync(first, stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_OK(cuMemFreeAsync(second, stream));
    EXPECT_OK(cuMemAlloc_v2(&other, 4 * kMiB));  // is neither
    EXPECT_NE(other, first);
    EXPECT_NE(other, second);
  }
  EXPECT_CU(cuMemFreeAsync(second, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree_v2(other));
}

TEST_F(MempoolTest, MemoryEndsWithTheLastContext) {
  EXPECT_EQ(run_in_fresh_process("MempoolChildTest.DISABLED_MemoryEndsWithTheLastContext"), 0);
}

TEST(MempoolChildTest, DISABLED_MemoryEndsWithTheLastContext) {
  CUcontext context = nullptr;
  CUmemoryPool pool = nullptr;
  CUdeviceptr block = 0;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  ASSERT_OK(cuMemAllocAsync(&block, 4 * kMiB, nullptr));
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  cuuint64_t reserved = 9;
  EXPECT_OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
  EXPECT_EQ(reserved, 0U);
  EXPECT_CU(cuMemFreeAsync(block, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MempoolTest, LargestSize) {
  Stream stream;
  CUmemPoolProps made = properties();
  made.maxSize = 8 * kMiB;
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &made));
  CUdeviceptr first = 0, second = 0;
  ASSERT_OK(cuMemAllocFromPoolAsync(&first, 6 * kMiB, pool, stream));
  EXPECT_CU(cuMemAllocFromPoolAsync(&second, 4 * kMiB, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_OK(cuMemFreeAsync(first, stream));
  EXPECT_OK(cuMemAllocFromPoolAsync(&second, 8 * kMiB, pool, stream));
  EXPECT_OK(cuMemFreeAsync(second, stream));
  EXPECT_OK(cuMemPoolDestroy(pool));
}

TEST_F(MempoolTest, BothWaysOfFreeing) {
  Stream stream;
  const CUdeviceptr block = allocate(3 * kMiB, stream);
  EXPECT_EQ(launch("fill", stream, block, 1000, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemFree_v2(block));
  EXPECT_CU(cuMemFree_v2(block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr plain = 0;
  ASSERT_OK(cuMemAlloc_v2(&plain, 5000));
  EXPECT_EQ(launch("fill", stream, plain, 1000, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemFreeAsync(plain, stream));
  EXPECT_CU(cuMemFree_v2(plain), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr again = allocate(1000, stream);
  EXPECT_CU(cuMemFreeAsync(again + 256, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeAsync(again, stream));
  EXPECT_CU(cuMemFreeAsync(again, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFree_v2(again), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MempoolTest, KeptMemoryServesOthers) {
  size_t free_bytes = 0, total = 0;
  Stream stream;
  set_threshold(~cuuint64_t{0});
  ASSERT_OK(cuMemGetInfo_v2(&free_bytes, &total));
  const size_t most = free_bytes / 4 * 3 / (2 * kMiB) * (2 * kMiB);
  for (int round = 0; round < 2; ++round) {
    const CUdeviceptr block = allocate(most, stream);
    ASSERT_NE(block, 0U);
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), most);
    CUdeviceptr plain = 0;
    ASSERT_OK(cuMemAlloc_v2(&plain, most));
    EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0U);
    EXPECT_OK(cuMemFree_v2(plain));
  }
  CUdeviceptr block = 0;
  EXPECT_CU(cuMemAllocAsync(&block, total + kMiB, stream), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuMemAllocAsync(&block, ~size_t{0}, stream), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(MempoolTest, WhoMayReachAPool) {
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  EXPECT_OK(cuMemPoolGetAccess(&flags, pool_, &here));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc all = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_OK(cuMemPoolSetAccess(pool_, &all, 1));
  all.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_CU(cuMemPoolSetAccess(pool_, &all, 1), CUDA_ERROR_INVALID_VALUE);
  here.id = 77;
  EXPECT_CU(cuMemPoolGetAccess(&flags, pool_, &here), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(MempoolTest, ByLocation) {
  CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  CUmemoryPool pool = nullptr;
  EXPECT_OK(cuMemGetDefaultMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(pool, pool_);
  EXPECT_OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, pool_));
  EXPECT_OK(cuMemGetMemPool(&pool, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
  EXPECT_EQ(pool, pool_);
}

}  // namespace
}  // namespace vgpu::conformance
