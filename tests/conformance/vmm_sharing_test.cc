// Physical memory that is shared by descriptor.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "vmm_support.h"

namespace vgpu::conformance {
namespace {

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

}  // namespace
}  // namespace vgpu::conformance
