// Managed memory: both sides see each other's writes at one address; advice is kept and answered.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr char kManagedPtx[] = R"(
.version 6.0
.target sm_50
.address_size 64
.global .attribute(.managed) .align 4 .u32 counter = 41;
.global .attribute(.managed) .align 8 .b8 table[8000];
.global .align 4 .u32 plain = 7;
.visible .entry bump() {
  .reg .u32 %r<2>;
  .reg .u64 %d<2>;
  mov.u64 %d1, counter;
  ld.global.u32 %r1, [%d1];
  add.u32 %r1, %r1, 1;
  st.global.u32 [%d1], %r1;
  mov.u64 %d1, table;
  st.global.u32 [%d1+7996], %r1;
  ret;
}
)";

class ManagedTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int managed = 0;
    ASSERT_OK(cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device_));
    if (managed != 0) return;
    ASSERT_TRUE(is_apart()) << "only a device on another host has none";
    CUdeviceptr none = 0;
    EXPECT_CU(cuMemAllocManaged(&none, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_NOT_SUPPORTED);
    GTEST_SKIP() << "no managed memory here";
  }
  uint32_t* allocate(size_t words) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAllocManaged(&address, words * 4, CU_MEM_ATTACH_GLOBAL));
    return reinterpret_cast<uint32_t*>(address);
  }
  static CUdeviceptr at(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
  int attribute(CUmem_range_attribute which, const void* pointer, size_t bytes) {
    int value = -77;
    EXPECT_OK(cuMemRangeGetAttribute(&value, sizeof(value), which, at(pointer), bytes));
    return value;
  }
};

TEST_F(ManagedTest, AttributesSayWhatIs) {
  const auto get = [this](CUdevice_attribute which) {
    int value = -1;
    EXPECT_OK(cuDeviceGetAttribute(&value, which, device_));
    return value;
  };
  EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY), 1);
  EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS), 1);
  EXPECT_EQ(get(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS), 0);
}

TEST_F(ManagedTest, BothSidesSeeWritesOfTheOther) {
  const size_t n = 10000;
  uint32_t* words = allocate(n);
  ASSERT_NE(words, nullptr);
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(words[i], 0U) << i;
  for (size_t i = 0; i < n; ++i) words[i] = static_cast<uint32_t>(i);
  Stream stream;
  EXPECT_EQ(launch("add", stream, at(words), n, 5), CUDA_SUCCESS);
  EXPECT_OK(cuStreamSynchronize(stream));
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(words[i], i + 5);
  EXPECT_OK(cuMemsetD32Async(at(words), 9, n, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words[n - 1], 9U);
  EXPECT_OK(cuMemFree_v2(at(words)));
  EXPECT_CU(cuMemFree_v2(at(words)), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ManagedTest, Copies) {
  uint32_t* words = allocate(1000);
  const Words device(1000);
  std::vector<uint32_t> host(1000, 3);
  EXPECT_OK(cuMemcpyHtoD_v2(at(words), host.data(), 4000));
  EXPECT_OK(cuMemcpyDtoD_v2(device.at(), at(words), 4000));
  EXPECT_EQ(device.read(), host);
  device.write(std::vector<uint32_t>(1000, 8));
  EXPECT_OK(cuMemcpyAsync(at(words), device.at(), 4000, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(words[999], 8U);
  EXPECT_OK(cuMemcpyDtoH_v2(host.data(), at(words), 4000));
  EXPECT_EQ(host[0], 8U);
  EXPECT_OK(cuMemFree_v2(at(words)));
}

TEST_F(ManagedTest, HostAndKernelAtTheSameTime) {
  uint32_t* flag = allocate(16);
  Stream stream;
  const CUdeviceptr address = at(flag);
  void* params[] = {const_cast<CUdeviceptr*>(&address)};
  EXPECT_OK(cuLaunchKernel(function("gate"), 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuMemFree_v2(address));
}

TEST_F(ManagedTest, Pointers) {
  uint32_t* words = allocate(1000);
  unsigned managed = 0, type = 0;
  void* host = nullptr;
  CUdeviceptr device = 0;
  EXPECT_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at(words + 5)));
  EXPECT_EQ(managed & 0xff, 1U);
  EXPECT_OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at(words)));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_OK(cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at(words + 5)));
  EXPECT_OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, at(words + 5)));
  EXPECT_EQ(at(host), device);
  EXPECT_CU(cuMemFreeHost(words), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree_v2(at(words)));
  EXPECT_CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at(words)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ManagedTest, AdviceIsKeptForItsRange) {
  const size_t page = 4096;
  auto* bytes = reinterpret_cast<char*>(allocate(16 * page / 4));
  CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, device_}, host = {};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes, page), CU_DEVICE_INVALID);
  EXPECT_OK(cuMemAdvise_v2(at(bytes), 8 * page, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes, 8 * page), 1);
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, bytes, 9 * page), 0);
  EXPECT_OK(cuMemAdvise_v2(at(bytes), 4 * page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
  EXPECT_OK(cuMemAdvise(at(bytes) + 4 * page, 4 * page, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
                        CU_DEVICE_CPU));
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes, 4 * page), device_);
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes + 4 * page, page),
            CU_DEVICE_CPU);
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, bytes, 5 * page),
            CU_DEVICE_INVALID);
  EXPECT_OK(cuMemPrefetchAsync_v2(at(bytes), 16 * page, host, 0, nullptr));
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, bytes, 16 * page),
            CU_DEVICE_CPU);
  EXPECT_OK(cuMemPrefetchAsync(at(bytes), 16 * page, device_, nullptr));
  EXPECT_EQ(attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, bytes, 16 * page), device_);
  EXPECT_OK(cuMemAdvise_v2(at(bytes), page, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
  int devices[2] = {};
  EXPECT_OK(cuMemRangeGetAttribute(devices, sizeof(devices), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                   at(bytes), page));
  EXPECT_EQ(devices[0], device_);
  EXPECT_EQ(devices[1], CU_DEVICE_INVALID);
  // The same asked together.
  int prefetched = -77, several[2] = {};
  void* answers[] = {&prefetched, several};
  size_t sizes[] = {sizeof(prefetched), sizeof(several)};
  CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                   CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  EXPECT_OK(cuMemRangeGetAttributes(answers, sizes, which, 2, at(bytes), page));
  EXPECT_EQ(prefetched, device_);
  EXPECT_EQ(several[0], device_);
  EXPECT_EQ(several[1], CU_DEVICE_INVALID);
  EXPECT_CU(cuMemRangeGetAttributes(answers, sizes, which, 0, at(bytes), page),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuStreamAttachMemAsync(nullptr, at(bytes), 0, CU_MEM_ATTACH_GLOBAL));
  EXPECT_OK(cuMemFree_v2(at(bytes)));
  EXPECT_CU(cuMemAdvise_v2(at(bytes), page, CU_MEM_ADVISE_SET_READ_MOSTLY, device),
            CUDA_ERROR_INVALID_VALUE);
}

// Nothing of it can be a node.
TEST_F(ManagedTest, NotInACapture) {
  uint32_t* words = allocate(1024);
  const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
  const Stream stream;
  for (const bool prefetches : {true, false}) {
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (prefetches) {
      EXPECT_CU(cuMemPrefetchAsync_v2(at(words), 4096, device, 0, stream),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    } else {
      EXPECT_CU(cuStreamAttachMemAsync(stream, at(words), 0, CU_MEM_ATTACH_GLOBAL),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  EXPECT_OK(cuMemPrefetchAsync_v2(at(words), 4096, device, 0, stream));
  EXPECT_OK(cuMemFree_v2(at(words)));
}

TEST_F(ManagedTest, Batches) {
  const size_t page = 4096;
  auto* bytes = reinterpret_cast<char*>(allocate(4 * page / 4));
  const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, device_},
                      host = {CU_MEM_LOCATION_TYPE_HOST, 0},
                      nowhere = {CU_MEM_LOCATION_TYPE_DEVICE, 99};
  Stream stream;
  const auto where = [&](int at_page) {
    return attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, bytes + at_page * page, page);
  };
  CUdeviceptr ranges[3] = {at(bytes), at(bytes) + page, at(bytes) + 2 * page};
  size_t sizes[3] = {page, page, 2 * page};
  CUmemLocation locations[2] = {device, host};
  size_t starts[2] = {0, 1};
  ASSERT_OK(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, stream));
  EXPECT_EQ(where(0), device_);
  EXPECT_EQ(where(1), CU_DEVICE_CPU);
  EXPECT_EQ(where(3), CU_DEVICE_CPU);
  std::memset(bytes, 5, 4 * page);
  locations[1] = device;
  ASSERT_OK(cuMemDiscardAndPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, stream));
  EXPECT_EQ(where(3), device_);
  ASSERT_OK(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream));
  std::memset(bytes, 6, 4 * page);  // undoes it
  EXPECT_EQ(launch("add", stream, at(bytes), page, 1), CUDA_SUCCESS);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(reinterpret_cast<uint32_t*>(bytes)[page - 1], 0x06060607U);

  // Nothing of a bad batch is done.
  locations[0] = locations[1] = host;
  sizes[2] = 3 * page;
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream), CUDA_ERROR_INVALID_VALUE);
  sizes[2] = 0;
  EXPECT_CU(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream), CUDA_ERROR_INVALID_VALUE);
  sizes[2] = page;
  locations[1] = nowhere;
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, stream),
            CUDA_ERROR_INVALID_DEVICE);
  locations[1] = host;
  starts[1] = 3;
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, stream),
            CUDA_ERROR_INVALID_VALUE);
  starts[1] = 1;
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 1, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 0, locations, starts, 2, 0, stream),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemPrefetchBatchAsync(ranges, sizes, 3, locations, starts, 2, 0, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, CU_STREAM_LEGACY),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(where(0), device_);
  const Words plain(16);  // not managed
  ranges[0] = plain.at();
  sizes[0] = 64;
  EXPECT_CU(cuMemDiscardBatchAsync(ranges, sizes, 3, 0, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree_v2(at(bytes)));
}

TEST_F(ManagedTest, Variables) {
  for (int round = 0; round < 3; ++round) {
    CUmodule module = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, kManagedPtx));
    CUfunction bump = nullptr;
    ASSERT_OK(cuModuleGetFunction(&bump, module, "bump"));
    CUdeviceptr counter = 0, table = 0, plain = 0;
    size_t bytes = 0;
    ASSERT_OK(cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"));
    EXPECT_EQ(bytes, 4U);
    ASSERT_OK(cuModuleGetGlobal_v2(&table, &bytes, module, "table"));
    EXPECT_EQ(bytes, 8000U);
    ASSERT_OK(cuModuleGetGlobal_v2(&plain, nullptr, module, "plain"));
    auto* value = reinterpret_cast<volatile uint32_t*>(counter);
    EXPECT_EQ(*value, 41U);
    *value = 100;
    EXPECT_OK(cuLaunchKernel(bump, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(*value, 101U);
    EXPECT_EQ(reinterpret_cast<volatile uint32_t*>(table)[1999], 101U);
    uint32_t copied = 0;
    EXPECT_OK(cuMemcpyDtoH_v2(&copied, counter, 4));
    EXPECT_EQ(copied, 101U);
    unsigned managed = 0;
    EXPECT_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, counter));
    EXPECT_EQ(managed & 0xff, 1U);
    managed = 0;
    EXPECT_OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, plain));
    EXPECT_EQ(managed & 0xff, 0U);
    EXPECT_CU(cuMemFree_v2(counter), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuModuleUnload(module));
  }
}

// They are of no context: the program's pointer and the kernels still mean the same pages.
TEST_F(ManagedTest, VariablesOfALibraryAfterReset) {
  CUlibrary library = nullptr;
  CUkernel bump = nullptr;
  CUdeviceptr counter = 0, again = 0;
  ASSERT_OK(cuLibraryLoadData(&library, kManagedPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&bump, library, "bump"));
  ASSERT_OK(cuLibraryGetManaged(&counter, nullptr, library, "counter"));
  auto* value = reinterpret_cast<volatile uint32_t*>(counter);
  EXPECT_EQ(*value, 41U);
  module_ = nullptr;  // goes with the context
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(device_));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, device_));
  ASSERT_OK(cuCtxSetCurrent(context_));
  *value = 70;
  EXPECT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(bump), 1, 1, 1, 1, 1, 1, 0, nullptr,
                           nullptr, nullptr));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(*value, 71U);
  EXPECT_OK(cuLibraryGetManaged(&again, nullptr, library, "counter"));
  EXPECT_EQ(again, counter);
  EXPECT_OK(cuLibraryUnload(library));
}

}  // namespace
}  // namespace vgpu::conformance
