// Memory pools that two processes share: descriptors of pools, and export data of their blocks.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "ipc_support.h"

namespace vgpu::conformance {
namespace {

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr size_t kMiB = size_t{1} << 20;

void* as_pointer(int descriptor) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));  // NOLINT
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  EXPECT_OK(cuMemGetInfo_v2(&free, &total));
  return free;
}

class PoolSharingTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int types = 0;
    ASSERT_OK(
        cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, device_));
    if ((types & kDescriptor) == 0) {
      CUmemoryPool pool = nullptr;
      EXPECT_CU(cuMemPoolCreate(&pool, &properties_), CUDA_ERROR_NOT_SUPPORTED);
      GTEST_SKIP() << "no pools are shared here";
    }
  }
  CUmemoryPool create() {
    CUmemoryPool pool = nullptr;
    properties_.location.id = device_;
    EXPECT_OK(cuMemPoolCreate(&pool, &properties_));
    return pool;
  }
  static int descriptor_of(CUmemoryPool pool) {
    int descriptor = -1;
    EXPECT_OK(cuMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 0));
    EXPECT_GE(descriptor, 0);
    return descriptor;
  }
  static CUmemoryPool import(int descriptor) {
    CUmemoryPool pool = nullptr;
    EXPECT_OK(cuMemPoolImportFromShareableHandle(&pool, as_pointer(descriptor), kDescriptor, 0));
    return pool;
  }
  static CUmemPoolPtrExportData data_of(CUdeviceptr address) {
    CUmemPoolPtrExportData data = {};
    EXPECT_OK(cuMemPoolExportPointer(&data, address));
    return data;
  }
  static CUdeviceptr import(CUmemoryPool pool, CUmemPoolPtrExportData data) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemPoolImportPointer(&address, pool, &data));
    return address;
  }
  static CUdeviceptr allocate(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&address, bytes, pool, nullptr));
    return address;
  }
  static uint32_t word_at(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH_v2(&word, address, 4));
    return word;
  }
  // The pool in the child's environment.
  static int hand_over_pool(CUmemoryPool pool) {
    const int descriptor = descriptor_of(pool), inherited = ::dup(descriptor);
    ::close(descriptor);
    ::setenv("VGPU_TEST_DESCRIPTOR", std::to_string(inherited).c_str(), 1);
    return inherited;
  }
  static CUmemoryPool handed_over_pool() {
    return import(std::atoi(std::getenv("VGPU_TEST_DESCRIPTOR")));
  }
  static bool alone() { return std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "loop"; }

  CUmemPoolProps properties_ = [] {
    CUmemPoolProps made = {};
    made.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    made.handleTypes = kDescriptor;
    made.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return made;
  }();
};

// Within one process too, though nobody needs it there.
TEST_F(PoolSharingTest, AnImportedBlockIsTheSameMemory) {
  const CUmemoryPool pool = create();
  const int descriptor = descriptor_of(pool);
  const CUmemoryPool imported = import(descriptor);
  ::close(descriptor);
  for (const size_t bytes : {size_t{4000}, 4 * kMiB, 9 * kMiB + 4}) {
    const CUdeviceptr first = allocate(pool, bytes);
    EXPECT_OK(cuMemsetD32_v2(first, 41, bytes / 4));
    const CUdeviceptr second = import(imported, data_of(first));
    EXPECT_NE(second, first);
    EXPECT_EQ(word_at(second), 41U);
    EXPECT_EQ(word_at(second + bytes / 4 * 4 - 4), 41U);
    EXPECT_EQ(launch("fill", nullptr, second, static_cast<uint32_t>(bytes / 4), 42), CUDA_SUCCESS);
    EXPECT_EQ(word_at(first + bytes / 4 * 4 - 4), 42U);
    // What it knows of the pointer.
    CUdeviceptr base = 0;
    size_t size = 0;
    EXPECT_OK(cuMemGetAddressRange_v2(&base, &size, second + 100));
    EXPECT_EQ(base, second);
    EXPECT_EQ(size, bytes);
    CUmemoryPool known = nullptr;
    EXPECT_OK(cuPointerGetAttribute(&known, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, second));
    EXPECT_EQ(known, imported);
    uint32_t word = 0;
    EXPECT_CU(cuMemcpyDtoH_v2(&word, second + bytes - 2, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuIpcCloseMemHandle(second), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuMemFree_v2(second));
    EXPECT_CU(cuMemcpyDtoH_v2(&word, second, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuMemFree_v2(second), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(word_at(first), 42U);
    EXPECT_OK(cuMemFreeAsync(first, nullptr));
  }
  EXPECT_OK(cuMemPoolDestroy(imported));
  EXPECT_OK(cuMemPoolDestroy(pool));
}

// An imported block is freed behind the work of a stream, and is nobody's at once.
TEST_F(PoolSharingTest, ImportedBlocksAreFreedInAStreamsOrder) {
  const CUmemoryPool pool = create();
  const int descriptor = descriptor_of(pool);
  const CUmemoryPool imported = import(descriptor);
  ::close(descriptor);
  const CUdeviceptr first = allocate(pool, 4 * kMiB);
  EXPECT_OK(cuMemsetD32_v2(first, 1, kMiB));
  EXPECT_OK(cuCtxSynchronize());
  const CUdeviceptr second = import(imported, data_of(first));
  Stream stream;
  uint32_t word = 0;
  {
    const Gate gate(function("gate"), stream);
    EXPECT_EQ(launch("fill", stream, second, kMiB, 2), CUDA_SUCCESS);
    EXPECT_OK(cuMemFreeAsync(second, stream));
    EXPECT_CU(cuMemcpyDtoH_v2(&word, second, 4), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuMemFreeAsync(second, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuMemPoolDestroy(imported));
  }
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(word_at(first), 2U);
  EXPECT_EQ(word_at(first + 4 * kMiB - 4), 2U);
  EXPECT_OK(cuMemFreeAsync(first, nullptr));
  EXPECT_OK(cuMemPoolDestroy(pool));
}

TEST_F(PoolSharingTest, AnotherProcessImportsSmallAndLargeBlocks) {
  if (alone()) GTEST_SKIP() << "its server is in this process";
  const CUmemoryPool pool = create();
  const CUdeviceptr before = allocate(pool, 400), small = allocate(pool, 4000);
  const CUdeviceptr large = allocate(pool, 20 * kMiB);
  EXPECT_OK(cuMemsetD32_v2(small, 11, 1000));
  EXPECT_OK(cuMemsetD32_v2(large, 22, 5 * kMiB));
  EXPECT_OK(cuCtxSynchronize());
  const int inherited = hand_over_pool(pool);
  hand_over("VGPU_TEST_SMALL", data_of(small));
  hand_over("VGPU_TEST_LARGE", data_of(large));
  EXPECT_EQ(run_in_fresh_process("PoolSharingTest.DISABLED_ImportsBoth"), 0);
  ::close(inherited);
  EXPECT_EQ(word_at(small + 3996), 33U);
  EXPECT_EQ(word_at(small + 3992), 11U);
  EXPECT_EQ(word_at(large), 44U);
  EXPECT_EQ(word_at(large + 20 * kMiB - 4), 44U);
  for (const CUdeviceptr each : {before, small, large}) EXPECT_OK(cuMemFreeAsync(each, nullptr));
  EXPECT_OK(cuMemPoolDestroy(pool));
}

TEST_F(PoolSharingTest, DISABLED_ImportsBoth) {
  const CUmemoryPool pool = handed_over_pool();
  const auto small_data = handed_over<CUmemPoolPtrExportData>("VGPU_TEST_SMALL");
  const CUdeviceptr small = import(pool, small_data);
  const CUdeviceptr large = import(pool, handed_over<CUmemPoolPtrExportData>("VGPU_TEST_LARGE"));
  EXPECT_EQ(word_at(small), 11U);
  EXPECT_EQ(word_at(large + 20 * kMiB - 4), 22U);
  EXPECT_OK(cuMemsetD32_v2(small + 3996, 33, 1));
  EXPECT_EQ(launch("fill", nullptr, large, 5 * kMiB, 44), CUDA_SUCCESS);
  EXPECT_OK(cuCtxSynchronize());
  // A pool of others' gives no memory and takes no device.
  CUdeviceptr address = 0;
  EXPECT_CU(cuMemAllocFromPoolAsync(&address, 4096, pool, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceSetMemPool(device_, pool), CUDA_ERROR_INVALID_VALUE);
  int descriptor = -1;
  EXPECT_CU(cuMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  CUmemPoolPtrExportData again = {};
  EXPECT_CU(cuMemPoolExportPointer(&again, large), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeAsync(large, nullptr));
  EXPECT_OK(cuMemFree_v2(small));
  EXPECT_OK(cuMemPoolDestroy(pool));
}

// The export data belongs to one pool, and every bit of it counts.
TEST_F(PoolSharingTest, ForgedDataImportsNothing) {
  const CUmemoryPool pool = create(), other = create();
  const int descriptor = descriptor_of(pool), others = descriptor_of(other);
  const CUmemoryPool imported = import(descriptor), imported_other = import(others);
  const CUdeviceptr block = allocate(pool, 4 * kMiB);
  const CUmemPoolPtrExportData real = data_of(block);
  CUdeviceptr address = 0;
  CUmemPoolPtrExportData data = real;
  EXPECT_CU(cuMemPoolImportPointer(&address, imported_other, &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolImportPointer(&address, pool, &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolImportPointer(nullptr, imported, &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolImportPointer(&address, imported, nullptr), CUDA_ERROR_INVALID_VALUE);
  for (size_t byte = 0; byte < 40; byte += 3) {
    data = real;
    data.reserved[byte] = static_cast<unsigned char>(data.reserved[byte] ^ 0x10);
    EXPECT_EQ(driver().cuMemPoolImportPointer(&address, imported, &data), CUDA_ERROR_INVALID_VALUE)
        << byte;
  }
  EXPECT_OK(cuMemPoolDestroy(imported));
  data = real;
  EXPECT_CU(cuMemPoolImportPointer(&address, imported, &data), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFreeAsync(block, nullptr));
  for (const CUmemoryPool each : {imported_other, pool, other}) EXPECT_OK(cuMemPoolDestroy(each));
  ::close(descriptor);
  ::close(others);
}

TEST_F(PoolSharingTest, WrongCalls) {
  const CUmemoryPool pool = create();
  CUmemoryPool made = nullptr, plain = nullptr;
  int descriptor = -1;
  EXPECT_OK(cuDeviceGetDefaultMemPool(&plain, device_));
  EXPECT_CU(cuMemPoolExportToShareableHandle(&descriptor, plain, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolExportToShareableHandle(nullptr, pool, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolExportToShareableHandle(&descriptor, pool, kDescriptor, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_WIN32, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPoolImportFromShareableHandle(&made, as_pointer(-1), kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_CU(cuMemPoolImportFromShareableHandle(&made, as_pointer(zero), kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  ::close(zero);
  // A block of a pool that nobody was given yet, of one that nobody can have, and none of a pool.
  CUmemPoolPtrExportData data = {};
  const CUdeviceptr block = allocate(pool, 4096);
  EXPECT_CU(cuMemPoolExportPointer(&data, block), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr other = 0;
  EXPECT_OK(cuMemAllocAsync(&other, 4096, nullptr));
  EXPECT_CU(cuMemPoolExportPointer(&data, other), CUDA_ERROR_INVALID_VALUE);
  const Words words(16);
  EXPECT_CU(cuMemPoolExportPointer(&data, words.at()), CUDA_ERROR_INVALID_VALUE);
  descriptor = descriptor_of(pool);
  EXPECT_CU(cuMemPoolExportPointer(nullptr, block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemPoolExportPointer(&data, block));
  EXPECT_OK(cuMemFreeAsync(other, nullptr));
  EXPECT_OK(cuMemFreeAsync(block, nullptr));
  EXPECT_CU(cuMemPoolExportPointer(&data, block), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemPoolDestroy(pool));
  ::close(descriptor);
}

// A pool gives the same block out again after it was shared; whoever exports it anew shares it.
TEST_F(PoolSharingTest, BlocksAreUsedAgainAndComeBack) {
  const size_t before = free_bytes();
  for (int round = 0; round < 3; ++round) {
    const CUmemoryPool pool = create();
    const int descriptor = descriptor_of(pool);
    const CUmemoryPool imported = import(descriptor);
    ::close(descriptor);
    for (uint32_t i = 0; i < 4; ++i) {
      const CUdeviceptr first = allocate(pool, 32 * kMiB);
      EXPECT_OK(cuMemsetD32_v2(first, i, 8 * kMiB));
      const CUdeviceptr second = import(imported, data_of(first));
      EXPECT_EQ(word_at(second + 32 * kMiB - 4), i);
      EXPECT_OK(cuMemFreeAsync(second, nullptr));
      EXPECT_OK(cuMemFreeAsync(first, nullptr));
      if (i == 1) EXPECT_OK(cuCtxSynchronize());
    }
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolDestroy(imported));
    EXPECT_OK(cuMemPoolDestroy(pool));
  }
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(free_bytes(), before);
}

// The importer keeps what it has when its maker frees it and ends the pool, and never sees what
// comes after.
TEST_F(PoolSharingTest, ImportedMemoryOutlivesItsPool) {
  const CUmemoryPool pool = create();
  const int descriptor = descriptor_of(pool);
  const CUmemoryPool imported = import(descriptor);
  ::close(descriptor);
  const CUdeviceptr first = allocate(pool, 8 * kMiB);
  EXPECT_OK(cuMemsetD32_v2(first, 77, 2 * kMiB));
  const CUdeviceptr second = import(imported, data_of(first));
  EXPECT_OK(cuMemFreeAsync(first, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemPoolDestroy(pool));
  EXPECT_OK(cuCtxSynchronize());
  const Words next(2 * kMiB);
  EXPECT_OK(cuMemsetD32_v2(next.at(), 88, 2 * kMiB));
  EXPECT_EQ(word_at(second), 77U);
  EXPECT_EQ(word_at(second + 8 * kMiB - 4), 77U);
  EXPECT_OK(cuMemsetD32_v2(second, 99, 2 * kMiB));
  EXPECT_EQ(next.read(), std::vector<uint32_t>(2 * kMiB, 88));
  EXPECT_OK(cuMemFree_v2(second));
  EXPECT_OK(cuMemPoolDestroy(imported));
}

}  // namespace
}  // namespace vgpu::conformance
