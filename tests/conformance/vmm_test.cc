// Virtual memory management: reserved addresses, physical memory, mappings.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

class VmmTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int supported = 0;
    ASSERT_OK(cuDeviceGetAttribute(
        &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device_));
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    access_ = {prop_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (supported == 0) {
      CUdeviceptr address = 0;
      EXPECT_CU(cuMemAddressReserve(&address, kStep, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
      GTEST_SKIP() << "no virtual memory management here";
    }
    size_t granularity = 0;
    ASSERT_OK(
        cuMemGetAllocationGranularity(&granularity, &prop_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ASSERT_EQ(kStep % granularity, 0U);
  }
  CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
  }
  CUmemGenericAllocationHandle create(size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(cuMemCreate(&handle, bytes, &prop_, 0));
    return handle;
  }
  static constexpr size_t kStep = size_t{2} << 20;
  CUmemAllocationProp prop_ = {};
  CUmemAccessDesc access_ = {};
};

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

class SharedVmmTest : public VmmTest {
 protected:
  void SetUp() override {
    VmmTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    int shares = 0;
    ASSERT_OK(cuDeviceGetAttribute(
        &shares, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device_));
    prop_.requestedHandleTypes = kDescriptor;
    CUmemGenericAllocationHandle handle = 0;
    if (shares == 0) {
      EXPECT_CU(cuMemCreate(&handle, kStep, &prop_, 0), CUDA_ERROR_NOT_SUPPORTED);
      GTEST_SKIP() << "no shareable handles here";
    }
  }
  // Maps all of it where it can be used.
  CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes) {
    const CUdeviceptr address = reserve(bytes);
    EXPECT_OK(cuMemMap(address, bytes, 0, handle, 0));
    EXPECT_OK(cuMemSetAccess(address, bytes, &access_, 1));
    return address;
  }
  void unmap(CUdeviceptr address, size_t bytes) {
    EXPECT_OK(cuMemUnmap(address, bytes));
    EXPECT_OK(cuMemAddressFree(address, bytes));
  }
  CUmemGenericAllocationHandle import(int descriptor) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_OK(cuMemImportFromShareableHandle(&handle, as_pointer(descriptor), kDescriptor));
    return handle;
  }
  static void* as_pointer(int descriptor) {
    return reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));  // NOLINT
  }
  uint32_t word_at(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH_v2(&word, address, 4));
    return word;
  }
  static constexpr CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
};

TEST_F(SharedVmmTest, ADescriptorIsTheSameMemory) {
  const CUmemGenericAllocationHandle made = create(2 * kStep);
  const CUdeviceptr first = map(made, 2 * kStep);
  EXPECT_OK(cuMemsetD32_v2(first, 41, kStep / 2));
  int descriptor = -1;
  EXPECT_OK(cuMemExportToShareableHandle(&descriptor, made, kDescriptor, 0));
  ASSERT_GE(descriptor, 0);
  const CUmemGenericAllocationHandle imported = import(descriptor);
  ::close(descriptor);
  const CUdeviceptr second = map(imported, 2 * kStep);
  EXPECT_EQ(word_at(second + 2 * kStep - 4), 41U);
  EXPECT_EQ(launch("fill", nullptr, second, kStep / 2, 42), CUDA_SUCCESS);
  EXPECT_EQ(word_at(first + 2 * kStep - 4), 42U);
  unsigned long long types = 0;  // NOLINT(google-runtime-int): the driver's type
  EXPECT_OK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, first));
  EXPECT_EQ(types, static_cast<unsigned>(kDescriptor));
  // It lives as long as any of the two.
  unmap(first, 2 * kStep);
  EXPECT_OK(cuMemRelease(made));
  EXPECT_EQ(word_at(second), 42U);
  unmap(second, 2 * kStep);
  EXPECT_OK(cuMemRelease(imported));
}

// However often this process has it.
TEST_F(SharedVmmTest, ItsOwnMemoryCountsOnce) {
  const auto free_bytes = [] {
    size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo_v2(&free, &total));
    return free;
  };
  constexpr size_t kBytes = 32 * kStep;
  const size_t before = free_bytes();
  const CUmemGenericAllocationHandle made = create(kBytes);
  EXPECT_EQ(before - free_bytes(), kBytes);
  int descriptor = -1;
  EXPECT_OK(cuMemExportToShareableHandle(&descriptor, made, kDescriptor, 0));
  const CUmemGenericAllocationHandle imported = import(descriptor);
  ::close(descriptor);
  EXPECT_EQ(before - free_bytes(), kBytes);
  EXPECT_OK(cuMemRelease(made));
  EXPECT_OK(cuMemRelease(imported));
  EXPECT_EQ(free_bytes(), before);
}

// While a kernel goes on writing to the memory, it is exported; nothing is lost.
TEST_F(SharedVmmTest, ExportedUnderRunningKernels) {
  const CUmemGenericAllocationHandle made = create(8 * kStep);
  const CUdeviceptr address = map(made, 8 * kStep);
  const auto words = static_cast<uint32_t>(8 * kStep / 4);
  EXPECT_OK(cuMemsetD32_v2(address, 0, words));
  EXPECT_OK(cuCtxSynchronize());
  constexpr uint32_t kRounds = 12;
  Stream stream;
  int descriptor = -1;
  for (uint32_t i = 0; i < kRounds; ++i)
    EXPECT_EQ(launch("add", stream, address, words, 1), CUDA_SUCCESS);
  EXPECT_OK(cuMemExportToShareableHandle(&descriptor, made, kDescriptor, 0));
  EXPECT_OK(cuStreamSynchronize(stream));
  const CUmemGenericAllocationHandle imported = import(descriptor);
  ::close(descriptor);
  const CUdeviceptr second = map(imported, 8 * kStep);
  std::vector<uint32_t> found(words);
  EXPECT_OK(cuMemcpyDtoH_v2(found.data(), second, 8 * kStep));
  EXPECT_EQ(found, std::vector<uint32_t>(words, kRounds));
  unmap(address, 8 * kStep);
  unmap(second, 8 * kStep);
  EXPECT_OK(cuMemRelease(made));
  EXPECT_OK(cuMemRelease(imported));
}

TEST_F(SharedVmmTest, WrongDescriptorsAndHandles) {
  CUmemGenericAllocationHandle handle = 0;
  int descriptor = -1;
  EXPECT_CU(cuMemImportFromShareableHandle(&handle, as_pointer(-1), kDescriptor),
            CUDA_ERROR_INVALID_VALUE);
  const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  EXPECT_CU(cuMemImportFromShareableHandle(&handle, as_pointer(zero), kDescriptor),
            CUDA_ERROR_INVALID_VALUE);
  ::close(zero);
  // Sealed, and full of what somebody made up.
  const int forged = ::memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const std::vector<char> bytes(size_t{4} << 20, 'x');
  ASSERT_EQ(::write(forged, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fcntl(forged, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL),
            0);
  EXPECT_CU(cuMemImportFromShareableHandle(&handle, as_pointer(forged), kDescriptor),
            CUDA_ERROR_INVALID_VALUE);
  ::close(forged);
  EXPECT_CU(cuMemImportFromShareableHandle(nullptr, as_pointer(0), kDescriptor),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemExportToShareableHandle(&descriptor, 0x1234560, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  prop_.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  const CUmemGenericAllocationHandle plain = create(kStep);
  EXPECT_CU(cuMemExportToShareableHandle(&descriptor, plain, kDescriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemRelease(plain));
}

// Another process, and so another guest of the same user, has the memory too.
TEST_F(SharedVmmTest, AnotherProcessImports) {
  if (std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "loop")
    GTEST_SKIP() << "its server is in this process";
  const CUmemGenericAllocationHandle made = create(4 * kStep);
  const CUdeviceptr address = map(made, 4 * kStep);
  EXPECT_OK(cuMemsetD32_v2(address, 1234, kStep));
  EXPECT_OK(cuCtxSynchronize());
  int descriptor = -1;
  EXPECT_OK(cuMemExportToShareableHandle(&descriptor, made, kDescriptor, 0));
  const int inherited = ::dup(descriptor);
  ::setenv("VGPU_TEST_DESCRIPTOR", std::to_string(inherited).c_str(), 1);
  EXPECT_EQ(run_in_fresh_process("SharedVmmTest.DISABLED_ImportsOfItsParent"), 0);
  ::close(inherited);
  ::close(descriptor);
  EXPECT_EQ(word_at(address), 1234U);
  EXPECT_EQ(word_at(address + 4 * kStep - 4), 4321U) << "what the other has written";
  unmap(address, 4 * kStep);
  EXPECT_OK(cuMemRelease(made));
}

TEST_F(SharedVmmTest, DISABLED_ImportsOfItsParent) {
  const int descriptor = std::atoi(std::getenv("VGPU_TEST_DESCRIPTOR"));
  const CUmemGenericAllocationHandle handle = import(descriptor);
  const CUdeviceptr address = map(handle, 4 * kStep);
  EXPECT_EQ(word_at(address), 1234U);
  EXPECT_EQ(word_at(address + 4 * kStep - 4), 1234U);
  EXPECT_OK(cuMemsetD32_v2(address + 4 * kStep - 4, 4321, 1));
  EXPECT_OK(cuCtxSynchronize());
  unmap(address, 4 * kStep);
  EXPECT_OK(cuMemRelease(handle));
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
