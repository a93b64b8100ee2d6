// Virtual memory management: reserved addresses, physical memory, mappings.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <thread>

#include "vmm_support.h"

namespace vgpu::conformance {
namespace {

TEST_F(VmmTest, MappedMemoryIsUsed) {
  const CUdeviceptr address = reserve(8 * kStep);
  const CUmemGenericAllocationHandle first = create(2 * kStep), second = create(kStep);
  EXPECT_OK(cuMemMap(address, 2 * kStep, 0, first, 0));
  EXPECT_OK(cuMemMap(address + 2 * kStep, kStep, 0, second, 0));
  EXPECT_OK(cuMemSetAccess(address, 3 * kStep, &access_, 1));
  const size_t n = 3 * kStep / 4;
  EXPECT_EQ(launch("fill", nullptr, address, static_cast<uint32_t>(n), 6), CUDA_SUCCESS);
  std::vector<uint32_t> words(n);
  EXPECT_OK(cuMemcpyDtoH_v2(words.data(), address, n * 4));  // across the border of two
  EXPECT_EQ(words, std::vector<uint32_t>(n, 6));
  EXPECT_OK(cuMemsetD32_v2(address + kStep, 1, kStep / 2));
  EXPECT_CU(cuMemcpyDtoH_v2(words.data(), address + 3 * kStep - 4, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAddressFree(address, 8 * kStep), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemUnmap(address, 3 * kStep));
  EXPECT_OK(cuMemRelease(first));
  EXPECT_OK(cuMemRelease(second));
  EXPECT_CU(cuMemRelease(second), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(words.data(), address, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemAddressFree(address, 8 * kStep));
  EXPECT_CU(cuMemAddressFree(address, 8 * kStep), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VmmTest, MemoryMovesAndIsSeenTwice) {
  const CUdeviceptr address = reserve(4 * kStep);
  const CUmemGenericAllocationHandle handle = create(kStep);
  EXPECT_OK(cuMemMap(address, kStep, 0, handle, 0));
  EXPECT_OK(cuMemSetAccess(address, kStep, &access_, 1));
  EXPECT_OK(cuMemsetD32_v2(address, 77, 16));
  EXPECT_OK(cuMemMap(address + 2 * kStep, kStep, 0, handle, 0));
  EXPECT_OK(cuMemSetAccess(address + 2 * kStep, kStep, &access_, 1));
  uint32_t value = 0;
  EXPECT_OK(cuMemcpyDtoH_v2(&value, address + 2 * kStep, 4));
  EXPECT_EQ(value, 77U);
  EXPECT_OK(cuMemUnmap(address, kStep));
  CUmemGenericAllocationHandle again = 0;
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemRetainAllocationHandle(
      &again, reinterpret_cast<void*>(address + 2 * kStep + 100)));  // NOLINT
  EXPECT_EQ(again, handle) << "the handle that it was mapped with";
  CUmemAllocationProp found = {};
  EXPECT_OK(cuMemGetAllocationPropertiesFromHandle(&found, again));
  EXPECT_EQ(found.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_OK(cuMemUnmap(address + 2 * kStep, kStep));
  EXPECT_OK(cuMemMap(address, kStep, 0, again, 0));
  EXPECT_OK(cuMemSetAccess(address, kStep, &access_, 1));
  value = 0;
  EXPECT_OK(cuMemcpyDtoH_v2(&value, address, 4));
  EXPECT_EQ(value, 77U);
  EXPECT_OK(cuMemRelease(again));
  EXPECT_OK(cuMemUnmap(address, kStep));
  EXPECT_OK(cuMemAddressFree(address, 4 * kStep));
}

// A right that is taken away may have to wait for work under way: its caller waits, and nobody
// else.
TEST_F(VmmTest, TakingARightHoldsNoOtherThread) {
  const CUdeviceptr address = reserve(kStep);
  const CUmemGenericAllocationHandle handle = create(kStep);
  EXPECT_OK(cuMemMap(address, kStep, 0, handle, 0));
  EXPECT_OK(cuMemSetAccess(address, kStep, &access_, 1));
  Stream waiting, writing;
  const Words flag(1);
  ASSERT_OK(cuMemsetD32_v2(flag.at(), 0, 1));
  ASSERT_OK(cuCtxSynchronize());
  ASSERT_OK(cuStreamWaitValue32_v2(waiting, flag.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
  std::thread writer([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    (void)::poll(nullptr, 0, 100);  // the other is in its call by then, as a rule
    EXPECT_OK(cuStreamWriteValue32_v2(writing, flag.at(), 1, 0));
    EXPECT_OK(cuStreamSynchronize(writing));
  });
  CUmemAccessDesc less = access_;
  less.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  EXPECT_OK(cuMemSetAccess(address, kStep, &less, 1));
  writer.join();
  EXPECT_OK(cuStreamSynchronize(waiting));
  EXPECT_OK(cuMemUnmap(address, kStep));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(address, kStep));
}

TEST_F(VmmTest, AccessIsAsked) {
  const CUdeviceptr address = reserve(2 * kStep);
  const CUmemGenericAllocationHandle handle = create(2 * kStep);
  unsigned long long flags = 99;  // NOLINT(google-runtime-int): the driver's type
  EXPECT_CU(cuMemGetAccess(&flags, &access_.location, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemMap(address, 2 * kStep, 0, handle, 0));
  EXPECT_OK(cuMemGetAccess(&flags, &access_.location, address));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_MEM_ACCESS_FLAGS_PROT_NONE));
  EXPECT_OK(cuMemSetAccess(address, 2 * kStep, &access_, 1));
  EXPECT_OK(cuMemGetAccess(&flags, &access_.location, address + kStep));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_CU(cuMemSetAccess(address, kStep, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemUnmap(address, 2 * kStep));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(address, 2 * kStep));
}

TEST_F(VmmTest, WrongCalls) {
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU(cuMemAddressReserve(&address, kStep + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAddressReserve(&address, kStep, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemAddressReserve(&address, ~size_t{4095}, 0, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuMemAddressReserve(&address, kStep, size_t{1} << 63, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(cuMemCreate(&handle, kStep + 1, &prop_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemCreate(&handle, kStep, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemCreate(&handle, size_t{1} << 46, &prop_, 0), CUDA_ERROR_OUT_OF_MEMORY);
  address = reserve(2 * kStep);
  handle = create(kStep);
  EXPECT_CU(cuMemMap(address, 2 * kStep, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemMap(address + 2 * kStep, kStep, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemMap(address + 4096, kStep, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemMap(address, kStep, 0, 0x1234567, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemUnmap(address, kStep), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemMap(address, kStep, 0, handle, 0));
  EXPECT_CU(cuMemMap(address, kStep, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemUnmap(address, kStep));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(address, 2 * kStep));
}

// What is mapped without access is not the device's to copy, and not the host's either.
TEST_F(VmmTest, ClosedMemoryIsNotCopied) {
  const CUdeviceptr address = reserve(2 * kStep);
  const CUmemGenericAllocationHandle handle = create(kStep);
  uint32_t word = 7;
  EXPECT_CU(cuMemcpy(address, reinterpret_cast<CUdeviceptr>(&word), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemMap(address, kStep, 0, handle, 0));
  EXPECT_CU(cuMemcpyHtoD_v2(address, &word, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpy(reinterpret_cast<CUdeviceptr>(&word), address, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD8_v2(address, 1, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemSetAccess(address, kStep, &access_, 1));
  EXPECT_OK(cuMemcpyHtoD_v2(address, &word, 4));
  EXPECT_CU(cuMemcpyHtoD_v2(address + kStep - 2, &word, 4), CUDA_ERROR_INVALID_VALUE);
  access_.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_OK(cuMemSetAccess(address, kStep, &access_, 1));
  EXPECT_CU(cuMemcpyHtoD_v2(address, &word, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemUnmap(address, kStep));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(address, 2 * kStep));
}

TEST_F(VmmTest, PointersKnowTheirReservationAndMapping) {
  const CUdeviceptr address = reserve(4 * kStep);
  const CUmemGenericAllocationHandle first = create(kStep), second = create(kStep);
  EXPECT_OK(cuMemMap(address, kStep, 0, first, 0));
  EXPECT_OK(cuMemMap(address + kStep, kStep, 0, second, 0));
  EXPECT_OK(cuMemSetAccess(address, 2 * kStep, &access_, 1));
  const CUdeviceptr inside = address + kStep + 100;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_OK(cuMemGetAddressRange_v2(&base, &bytes, inside));
  EXPECT_EQ(base, address + kStep);
  EXPECT_EQ(bytes, kStep);
  EXPECT_OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside));
  EXPECT_OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside));
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 4 * kStep);
  EXPECT_OK(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inside));
  EXPECT_OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside));
  EXPECT_EQ(base, address + kStep);
  EXPECT_EQ(bytes, kStep);
  CUcontext owner = context_;
  EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, inside));
  EXPECT_EQ(owner, nullptr) << "no context owns it";
  bool mapped = true;
  EXPECT_OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, address + 3 * kStep));
  EXPECT_FALSE(mapped) << "reserved only";
  EXPECT_OK(
      cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 3 * kStep));
  EXPECT_EQ(base, address);
  EXPECT_OK(cuMemUnmap(address, 2 * kStep));
  EXPECT_OK(cuMemRelease(first));
  EXPECT_OK(cuMemRelease(second));
  EXPECT_OK(cuMemAddressFree(address, 4 * kStep));
}

// A hint is honoured where it is free, and reservations of any whole page are given back.
TEST_F(VmmTest, ReservationsAreGivenAgain) {
  const CUdeviceptr first = reserve(8 * kStep);
  EXPECT_OK(cuMemAddressFree(first, 8 * kStep));
  CUdeviceptr again = 0;
  EXPECT_OK(cuMemAddressReserve(&again, 8 * kStep, 0, first, 0));
  const CUdeviceptr odd = [] {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAddressReserve(&address, 4096, size_t{64} << 20, 0, 0));
    return address;
  }();
  EXPECT_EQ(odd % (size_t{64} << 20), 0U);
  EXPECT_CU(cuMemAddressFree(odd, kStep), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemAddressFree(odd, 4096));
  EXPECT_OK(cuMemAddressFree(again, 8 * kStep));
}

// Created memory counts, and is there again.
TEST_F(VmmTest, TakesAndGivesDeviceMemory) {
  size_t free_bytes = 0, total = 0, during = 0;
  ASSERT_OK(cuMemGetInfo_v2(&free_bytes, &total));
  const size_t most = free_bytes / 4 * 3 / kStep * kStep;
  prop_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  for (int round = 0; round < 3; ++round) {
    CUmemGenericAllocationHandle handle = create(most), second = 0;
    ASSERT_OK(cuMemGetInfo_v2(&during, &total));
    EXPECT_LE(during, free_bytes - most);
    EXPECT_CU(cuMemCreate(&second, most, &prop_, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemRelease(handle));
    CUdeviceptr plain = 0;
    ASSERT_OK(cuMemAlloc_v2(&plain, most));
    EXPECT_OK(cuMemFree_v2(plain));
  }
}

}  // namespace
}  // namespace vgpu::conformance
