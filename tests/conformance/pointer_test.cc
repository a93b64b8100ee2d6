// What an address is: device, host, or nothing the driver knows.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using PointerTest = ContextTest;

TEST_F(PointerTest, DeviceMemory) {
  const Words words(16);
  unsigned type = 0;
  ASSERT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words.at(3)));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  CUcontext context = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, words.at()));
  EXPECT_EQ(context, context_);
  CUdeviceptr device = 0;
  EXPECT_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, words.at(2)));
  EXPECT_EQ(device, words.at(2));
  int ordinal = -1;
  EXPECT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, words.at()));
  EXPECT_EQ(ordinal, 0);
  void* host = nullptr;
  EXPECT_CU(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, words.at()),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PointerTest, HostMemory) {
  void* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  const auto address = reinterpret_cast<CUdeviceptr>(host);
  unsigned type = 0;
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  EXPECT_OK(cuMemFreeHost(host));
  EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PointerTest, UnknownAddresses) {
  int local = 0;
  unsigned type = 99;
  for (CUdeviceptr unknown : {kNowhere, reinterpret_cast<CUdeviceptr>(&local)}) {
    EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unknown),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_CU(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kNowhere),
            CUDA_ERROR_INVALID_VALUE);
}

// An allocation ends where it was asked to, not where the driver rounds it to.
TEST_F(PointerTest, PastTheEnd) {
  const Words words(16);
  unsigned type = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words.at(16) - 1));
  EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, words.at(16)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemGetAddressRange_v2(&base, &bytes, words.at(16) - 1));
  EXPECT_EQ(base, words.at());
  EXPECT_EQ(bytes, words.bytes());
  EXPECT_CU(cuMemGetAddressRange_v2(&base, &bytes, words.at(16)), CUDA_ERROR_NOT_FOUND);
  // A copy of nothing may stand there.
  uint32_t word = 0;
  EXPECT_CU(cuMemcpyDtoH_v2(&word, words.at(16), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD32_v2(words.at(16), 0, 1), CUDA_ERROR_INVALID_VALUE);
}

// Attributes 15 to 21, of device memory, of host memory, and of an address in the middle.
TEST_F(PointerTest, MappingsAndAccess) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(16);
  void* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  const auto get = [](auto* value, int which, CUdeviceptr address) {
    return driver().cuPointerGetAttribute(value, static_cast<CUpointer_attribute>(which), address);
  };
  unsigned long long ids[2] = {};  // NOLINT(google-runtime-int): the driver's type
  int at = 0;
  for (CUdeviceptr base : {words.at(), reinterpret_cast<CUdeviceptr>(host)}) {
    bool rdma = true, decompression = true;
    unsigned access = 0;
    CUmemoryPool pool = garbage_handle<CUmemoryPool>();
    size_t mapping = 0;
    CUdeviceptr start = 0;
    EXPECT_EQ(get(&rdma, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, base + 4), CUDA_SUCCESS);
    EXPECT_FALSE(rdma);
    EXPECT_EQ(get(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, base + 4), CUDA_SUCCESS);
    EXPECT_EQ(access, static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    EXPECT_EQ(get(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, base + 4), CUDA_SUCCESS);
    EXPECT_EQ(pool, nullptr);
    EXPECT_EQ(get(&mapping, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + 4), CUDA_SUCCESS);
    EXPECT_GE(mapping, 64U);
    EXPECT_EQ(get(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + 4), CUDA_SUCCESS);
    EXPECT_LE(start, base);
    EXPECT_GT(start + mapping, base + 4);
    EXPECT_EQ(get(&ids[at], CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base + 4), CUDA_SUCCESS);
    EXPECT_NE(ids[at++], 0U);
    EXPECT_EQ(get(&decompression, 21, base + 4), CUDA_SUCCESS);
    EXPECT_FALSE(decompression);
    EXPECT_EQ(get(&access, 22, base), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_OK(cuMemFreeHost(host));
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                                 CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                                 CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
  unsigned access = 9;
  size_t mapping = 9;
  void* values[] = {&access, &mapping, &ids[0]};
  EXPECT_OK(cuPointerGetAttributes(3, which, values, kNowhere));
  EXPECT_EQ(access, 0U);
  EXPECT_EQ(mapping, 0U);
  EXPECT_EQ(ids[0], 0U);
}

// The plural asks kindly: unknown addresses succeed and give zeros.
TEST_F(PointerTest, SeveralAtOnce) {
  const Words words(16);
  unsigned type = 99;
  CUcontext context = garbage_handle<CUcontext>();
  CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
  void* values[] = {&type, &context};
  EXPECT_OK(cuPointerGetAttributes(2, which, values, words.at()));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(context, context_);
  EXPECT_OK(cuPointerGetAttributes(2, which, values, kNowhere));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(context, nullptr);
}

TEST_F(PointerTest, SynchronousMemoryOperations) {
  const Words words(1024);
  unsigned on = 1, found = 7;
  EXPECT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at()));
  EXPECT_EQ(found, 0U);
  EXPECT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at(5)));
  EXPECT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at()));
  EXPECT_EQ(found, 1U);
  // What blocks is over when it returns, as a query of the stream shows.
  EXPECT_OK(cuMemsetD32_v2(words.at(), 3, 1024));
  EXPECT_OK(cuStreamQuery(nullptr));
  on = 0;
  EXPECT_OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at()));
  EXPECT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at()));
  EXPECT_EQ(found, 0U);
  EXPECT_CU(cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words.at()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_CONTEXT, words.at()),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vgpu::conformance
