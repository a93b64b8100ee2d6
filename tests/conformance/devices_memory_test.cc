// Memory of several devices, of every kind: whose it is, who may use it, how it is copied.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "devices_support.h"

namespace vgpu::conformance {
namespace {

class DevicesMemoryTest : public DevicesTest {};

TEST_F(DevicesMemoryTest, MemoryOfAnotherDeviceIsCopiedAndFilled) {
  const CUdeviceptr away = allocate_there();
  const Words here(kWords);
  std::vector<uint32_t> values(kWords);
  for (uint32_t i = 0; i < kWords; ++i) values[i] = i * 7;
  ASSERT_OK(cuMemcpyHtoD_v2(away, values.data(), kWords * 4));
  EXPECT_EQ(read(away), values);
  ASSERT_OK(cuMemcpyDtoD_v2(here.at(), away, kWords * 4));
  EXPECT_EQ(here.read(), values);
  Stream stream;
  ASSERT_OK(cuMemsetD32Async(away, 5, kWords, stream));
  ASSERT_OK(cuMemcpyAsync(here.at(), away, kWords * 2, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  std::fill_n(values.begin(), kWords / 2, 5);
  EXPECT_EQ(here.read(), values);
  ASSERT_OK(cuMemcpyDtoD_v2(away, away + kWords * 2, kWords * 2));  // both are there
  std::vector<uint32_t> wide(256 * 1024, 9);
  const CUdeviceptr large = allocate_there(wide.size() * 4);
  ASSERT_OK(cuMemcpyHtoDAsync_v2(large, wide.data(), wide.size() * 4, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(read(large, 256 * 1024), wide);
  free_there(large);
  free_there(away);
}

TEST_F(DevicesMemoryTest, BoxesGoBetweenDevices) {
  const CUdeviceptr away = allocate_there();
  const Words here(kWords);
  std::vector<uint32_t> values(kWords);
  for (uint32_t i = 0; i < kWords; ++i) values[i] = i;
  here.write(values);
  ASSERT_OK(cuMemsetD2D32_v2(away, 128, 1, 32, 32));
  CUDA_MEMCPY2D box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = here.at();
  box.srcPitch = box.dstPitch = 128;
  box.dstDevice = away + 64;
  box.WidthInBytes = 64;
  box.Height = 32;
  ASSERT_OK(cuMemcpy2D_v2(&box));
  std::vector<uint32_t> back(kWords);
  CUDA_MEMCPY2D down = {};
  down.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  down.dstMemoryType = CU_MEMORYTYPE_HOST;
  down.srcDevice = away;
  down.dstHost = back.data();
  down.srcPitch = down.dstPitch = down.WidthInBytes = 128;
  down.Height = 32;
  ASSERT_OK(cuMemcpy2D_v2(&down));
  for (uint32_t i = 0; i < kWords; ++i) {
    const uint32_t column = i % 32;
    ASSERT_EQ(back[i], column < 16 ? 1 : i - 16) << i;
  }
  free_there(away);
}

TEST_F(DevicesMemoryTest, ForeignWorkKeepsItsStreamsOrder) {
  const CUdeviceptr away = allocate_there();
  const Words here(kWords);
  Stream stream;
  {
    Gate gate(function("gate"), stream);
    ASSERT_OK(cuMemsetD32Async(here.at(), 1, kWords, stream));
    for (uint32_t round = 2; round < 40; ++round) {
      ASSERT_OK(cuMemcpyDtoDAsync_v2(away, here.at(), kWords * 4, stream));
      ASSERT_OK(cuMemsetD32Async(away, round, kWords / 2, stream));
      ASSERT_OK(cuMemcpyDtoDAsync_v2(here.at(), away, kWords * 4, stream));
      launch_in(function("add"), here.at(), 1, stream);
    }
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  }
  std::vector<uint32_t> expected(kWords, 1 + 38);
  std::fill_n(expected.begin(), kWords / 2, 39 + 1);
  EXPECT_EQ(here.read(), expected);
  free_there(away);
}

TEST_F(DevicesMemoryTest, SynchronousPeerCopiesWaitForBothContexts) {
  const CUdeviceptr away = allocate_there();
  const Words here(kWords);
  there([&] {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t round = 0; round < 200; ++round)
      launch_in(other_function("fill"), away, round, stream);
    EXPECT_OK(cuStreamDestroy_v2(stream));
  });
  ASSERT_OK(cuMemcpyPeer(here.at(), context_, away, other_, kWords * 4));
  EXPECT_EQ(here.read(), all(199));
  free_there(away);
}

TEST_F(DevicesMemoryTest, EachHasItsOwnMemory) {
  const size_t here = free_bytes();
  size_t away = 0, after = 0, total = 0;
  there([&] { away = free_bytes(); });
  const CUdeviceptr address = allocate_there(64 * kMiB);
  EXPECT_EQ(ordinal(address), 1);
  EXPECT_EQ(free_bytes(), here);
  there([&] { EXPECT_OK(cuMemGetInfo_v2(&after, &total)); });
  EXPECT_EQ(away - after, 64 * kMiB);
  size_t reported = 0;
  EXPECT_OK(cuDeviceTotalMem_v2(&reported, 1));
  EXPECT_EQ(reported, total);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_OK(cuMemGetAddressRange_v2(&base, &bytes, address + 4711));
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 64 * kMiB);
  EXPECT_OK(cuMemFree_v2(address));  // whichever context is current
  there([&] { EXPECT_EQ(free_bytes(), away); });
}

TEST_F(DevicesMemoryTest, OneBeingFullLeavesTheOther) {
  std::vector<CUdeviceptr> taken;
  there([&] {
    const size_t step = free_bytes() / 8;
    CUdeviceptr address = 0;
    while (driver().cuMemAlloc_v2(&address, step) == CUDA_SUCCESS) taken.push_back(address);
    EXPECT_GE(taken.size(), 7U);
    EXPECT_CU(cuMemAlloc_v2(&address, step), CUDA_ERROR_OUT_OF_MEMORY);
  });
  const Words words(16 * kMiB);
  launch_in(function("fill"), words.at(), 6);
  EXPECT_EQ(read(words.at()), all(6));
  there([&] {
    for (const CUdeviceptr each : taken) EXPECT_OK(cuMemFree_v2(each));
  });
}

TEST_F(DevicesMemoryTest, EachHasItsPools) {
  CUmemoryPool here = nullptr, away = nullptr, made = nullptr, found = nullptr;
  EXPECT_OK(cuDeviceGetDefaultMemPool(&here, 0));
  EXPECT_OK(cuDeviceGetDefaultMemPool(&away, 1));
  EXPECT_NE(here, away);
  EXPECT_CU(cuDeviceSetMemPool(1, here), CUDA_ERROR_INVALID_VALUE);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, count_};
  EXPECT_CU(cuMemPoolCreate(&made, &properties), CUDA_ERROR_INVALID_DEVICE);
  properties.location.id = 1;
  ASSERT_OK(cuMemPoolCreate(&made, &properties));
  EXPECT_OK(cuDeviceSetMemPool(1, made));
  EXPECT_OK(cuDeviceGetMemPool(&found, 0));
  EXPECT_EQ(found, here);
  CUdeviceptr block = 0, own = 0, foreign = 0;
  there([&] {
    ASSERT_OK(cuMemAllocAsync(&block, kWords * 4, nullptr));
    launch_in(other_function("fill"), block, 8);
  });
  ASSERT_OK(cuMemAllocAsync(&own, kWords * 4, nullptr));
  ASSERT_OK(cuMemAllocFromPoolAsync(&foreign, kWords * 4, made, nullptr));
  launch_in(function("fill"), own, 9);
  EXPECT_EQ(ordinal(block), 1);
  EXPECT_EQ(ordinal(own), 0);
  EXPECT_EQ(ordinal(foreign), 1);
  EXPECT_OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block));
  EXPECT_EQ(found, made);
  EXPECT_EQ(read(own), all(9));
  there([&] {
    EXPECT_EQ(read(block), all(8));
    EXPECT_OK(cuMemFreeAsync(block, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
  });
  EXPECT_OK(cuMemFreeAsync(own, nullptr));
  EXPECT_OK(cuMemFreeAsync(foreign, nullptr));
  EXPECT_OK(cuStreamSynchronize(nullptr));
  EXPECT_OK(cuMemPoolDestroy(made));
  EXPECT_OK(cuDeviceGetMemPool(&found, 1));
  EXPECT_EQ(found, away);
}

TEST_F(DevicesMemoryTest, PoolsAreShownToOtherDevices) {
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuDeviceGetDefaultMemPool(&pool, 1));
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_MAX;
  EXPECT_OK(cuMemPoolGetAccess(&flags, pool, &location));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (driver().cuMemPoolSetAccess(pool, &access, 1) == CUDA_ERROR_NOT_SUPPORTED) {
    EXPECT_OK(cuMemPoolGetAccess(&flags, pool, &location));
    EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    GTEST_SKIP() << "memory is where a driver puts it";
  }
  EXPECT_OK(cuMemPoolGetAccess(&flags, pool, &location));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUdeviceptr block = 0;
  there([&] {
    ASSERT_OK(cuMemAllocAsync(&block, kWords * 4, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
  });
  launch_in(function("fill"), block, 11);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(read(block), all(11));
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_OK(cuMemPoolSetAccess(pool, &access, 1));
  access.location.id = 1;
  EXPECT_CU(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_VALUE);  // its own device
  access.location.id = count_;
  EXPECT_CU(cuMemPoolSetAccess(pool, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  there([&] {
    EXPECT_OK(cuMemFreeAsync(block, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
  });
}

// A pool lives on until its last block is freed, and so does the access to it.
TEST_F(DevicesMemoryTest, BlocksOutliveThePoolsName) {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {1}};
  CUmemoryPool pool = nullptr;
  ASSERT_OK(cuMemPoolCreate(&pool, &properties));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, {0}},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (driver().cuMemPoolSetAccess(pool, &access, 1) == CUDA_ERROR_NOT_SUPPORTED) {
    EXPECT_OK(cuMemPoolDestroy(pool));
    GTEST_SKIP() << "memory is where a driver puts it";
  }
  CUdeviceptr block = 0;
  there([&] {
    ASSERT_OK(cuMemAllocFromPoolAsync(&block, kWords * 4, pool, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
  });
  EXPECT_OK(cuMemPoolDestroy(pool));
  launch_in(function("fill"), block, 12);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(read(block), all(12));
  there([&] {
    EXPECT_OK(cuMemFreeAsync(block, nullptr));
    EXPECT_OK(cuStreamSynchronize(nullptr));
  });
}

TEST_F(DevicesMemoryTest, ManagedMemoryIsForAll) {
  int managed = 0;
  EXPECT_OK(cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1));
  if (managed == 0) GTEST_SKIP() << "no managed memory here";
  CUdeviceptr words = 0;
  there([&] { ASSERT_OK(cuMemAllocManaged(&words, kWords * 4, CU_MEM_ATTACH_GLOBAL)); });
  auto* const host = reinterpret_cast<uint32_t*>(words);
  for (uint32_t i = 0; i < kWords; ++i) host[i] = i;
  launch_in(function("add"), words, 100);
  EXPECT_OK(cuCtxSynchronize());
  there([&] {
    launch_in(other_function("add"), words, 1000);
    EXPECT_OK(cuCtxSynchronize());
  });
  for (uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(host[i], i + 1100) << i;
  const auto advise = [&](CUmem_advise advice, int device) {
    const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    return driver().cuMemAdvise_v2(words, kWords * 4, advice, location);
  };
  EXPECT_EQ(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 1), CUDA_SUCCESS);
  EXPECT_EQ(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, 0), CUDA_SUCCESS);
  EXPECT_EQ(advise(CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 1), CUDA_SUCCESS);
  EXPECT_EQ(advise(CU_MEM_ADVISE_SET_ACCESSED_BY, count_), CUDA_ERROR_INVALID_DEVICE);
  int users[3] = {};
  EXPECT_OK(cuMemRangeGetAttribute(users, sizeof users, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, words,
                                   kWords * 4));
  EXPECT_EQ(std::vector<int>(users, users + 3), (std::vector<int>{0, 1, CU_DEVICE_INVALID}));
  EXPECT_EQ(advise(CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0), CUDA_SUCCESS);
  EXPECT_OK(cuMemRangeGetAttribute(users, sizeof users, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, words,
                                   kWords * 4));
  EXPECT_EQ(users[0], 1);
  int preferred = -1;
  EXPECT_OK(cuMemRangeGetAttribute(&preferred, sizeof preferred,
                                   CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, words, kWords * 4));
  EXPECT_EQ(preferred, 1);
  EXPECT_OK(cuMemPrefetchAsync(words, kWords * 4, 1, nullptr));
  EXPECT_OK(cuMemFree_v2(words));
}

TEST_F(DevicesMemoryTest, PinnedMemoryIsForAll) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  void* memory = nullptr;
  there([&] { ASSERT_OK(cuMemHostAlloc(&memory, kWords * 4, 0)); });
  CUdeviceptr address = 0;
  ASSERT_OK(cuMemHostGetDevicePointer_v2(&address, memory, 0));
  launch_in(function("fill"), address, 21);
  EXPECT_OK(cuCtxSynchronize());
  there([&] {
    launch_in(other_function("add"), address, 21);
    EXPECT_OK(cuCtxSynchronize());
  });
  EXPECT_EQ(static_cast<uint32_t*>(memory)[kWords - 1], 42U);
  EXPECT_OK(cuMemFreeHost(memory));
}

TEST_F(DevicesMemoryTest, ArraysAreOfOneDevice) {
  CUDA_ARRAY_DESCRIPTOR shape = {1024, 1024, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  CUarray array = nullptr;
  const size_t here = free_bytes();
  const std::vector<uint32_t> values(1024, 77);
  there([&] {
    const size_t before = free_bytes();
    ASSERT_OK(cuArrayCreate_v2(&array, &shape));
    EXPECT_GE(before - free_bytes(), 4 * kMiB);
    ASSERT_OK(cuMemcpyHtoA_v2(array, 0, values.data(), 4096));
    std::vector<uint32_t> back(1024);
    ASSERT_OK(cuMemcpyAtoH_v2(back.data(), array, 0, 4096));
    EXPECT_EQ(back, values);
    EXPECT_OK(cuArrayDestroy(array));
  });
  EXPECT_EQ(free_bytes(), here);
}

TEST_F(DevicesMemoryTest, VirtualMemoryOfEach) {
  int supported = 0;
  EXPECT_OK(
      cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1));
  if (supported == 0) GTEST_SKIP() << "no virtual memory management";
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  size_t unit = 0;
  ASSERT_OK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handles[2] = {};
  ASSERT_OK(cuMemAddressReserve(&base, 2 * unit, 0, 0, 0));
  size_t before = 0;
  there([&] { before = free_bytes(); });
  ASSERT_OK(cuMemCreate(&handles[0], unit, &properties, 0));
  properties.location.id = 0;
  ASSERT_OK(cuMemCreate(&handles[1], unit, &properties, 0));
  there([&] { EXPECT_EQ(before - free_bytes(), unit); });
  for (size_t i = 0; i < 2; ++i) ASSERT_OK(cuMemMap(base + i * unit, unit, 0, handles[i], 0));
  CUmemAccessDesc access[2] = {};
  for (int i = 0; i < 2; ++i)
    access[i] = {{CU_MEM_LOCATION_TYPE_DEVICE, i}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_OK(cuMemSetAccess(base, 2 * unit, access, 2));
  EXPECT_EQ(ordinal(base), 1);
  EXPECT_EQ(ordinal(base + unit), 0);
  ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, handles[0]));
  EXPECT_EQ(properties.location.id, 1);
  const auto n = static_cast<uint32_t>(2 * unit / 4);
  launch_in(function("fill"), base, 51, nullptr, n);
  EXPECT_OK(cuCtxSynchronize());
  there([&] {
    launch_in(other_function("add"), base, 1, nullptr, n);
    EXPECT_OK(cuCtxSynchronize());
  });
  EXPECT_EQ(read(base, n), std::vector<uint32_t>(n, 52));
  access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  ASSERT_OK(cuMemSetAccess(base, unit, &access[1], 1));
  for (int i = 0; i < 2; ++i) {
    unsigned long long flags = 0;
    ASSERT_OK(cuMemGetAccess(&flags, &access[i].location, base));
    EXPECT_EQ(flags, access[i].flags) << "of device " << i;
  }
  properties.location.id = count_;
  CUmemGenericAllocationHandle none = 0;
  EXPECT_CU(cuMemCreate(&none, unit, &properties, 0), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_OK(cuMemUnmap(base, 2 * unit));
  for (const CUmemGenericAllocationHandle each : handles) EXPECT_OK(cuMemRelease(each));
  EXPECT_OK(cuMemAddressFree(base, 2 * unit));
  there([&] { EXPECT_EQ(free_bytes(), before); });
}

TEST_F(DevicesMemoryTest, ExportedMemoryKeepsItsDevice) {
  int supported = 0;
  EXPECT_OK(cuDeviceGetAttribute(
      &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1));
  if (supported == 0) GTEST_SKIP() << "no shareable handles";
  constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  properties.requestedHandleTypes = kDescriptor;
  CUmemGenericAllocationHandle made = 0, imported = 0;
  ASSERT_OK(cuMemCreate(&made, 2 * kMiB, &properties, 0));
  int file = -1;
  ASSERT_OK(cuMemExportToShareableHandle(&file, made, kDescriptor, 0));
  ASSERT_OK(cuMemImportFromShareableHandle(
      &imported, reinterpret_cast<void*>(static_cast<intptr_t>(file)),  // NOLINT
      kDescriptor));
  EXPECT_EQ(::close(file), 0);
  ASSERT_OK(cuMemGetAllocationPropertiesFromHandle(&properties, imported));
  EXPECT_EQ(properties.location.id, 1);
  for (const CUmemGenericAllocationHandle each : {made, imported}) EXPECT_OK(cuMemRelease(each));
}

}  // namespace
}  // namespace vgpu::conformance
