// Memory imported by descriptor.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr size_t kBytes = size_t{4} << 20;
constexpr auto kFile = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

class ExternalTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    int shares = 0;
    ASSERT_OK(cuDeviceGetAttribute(
        &shares, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device_));
    if (shares == 0) {
      CUexternalMemory memory = nullptr;
      const CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = describe(-1);
      EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_NOT_SUPPORTED);
      GTEST_SKIP() << "no shareable handles here";
    }
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device_;
    prop.requestedHandleTypes = kFile;
    ASSERT_OK(cuMemCreate(&handle_, kBytes, &prop, 0));
    ASSERT_OK(cuMemAddressReserve(&address_, kBytes, 0, 0, 0));
    ASSERT_OK(cuMemMap(address_, kBytes, 0, handle_, 0));
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    ASSERT_OK(cuMemSetAccess(address_, kBytes, &access, 1));
    ASSERT_OK(cuMemExportToShareableHandle(&file_, handle_, kFile, 0));
  }
  void TearDown() override {
    if (address_ != 0) {
      EXPECT_OK(cuMemUnmap(address_, kBytes));
      EXPECT_OK(cuMemAddressFree(address_, kBytes));
      EXPECT_OK(cuMemRelease(handle_));
    }
    KernelTest::TearDown();
  }
  static CUDA_EXTERNAL_MEMORY_HANDLE_DESC describe(int file) {
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = {};
    description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    description.handle.fd = file;
    description.size = kBytes;
    return description;
  }
  static CUdeviceptr buffer(CUexternalMemory memory, uint64_t offset, uint64_t bytes) {
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC description = {offset, bytes, 0, {}};
    CUdeviceptr address = 0;
    EXPECT_OK(cuExternalMemoryGetMappedBuffer(&address, memory, &description));
    return address;
  }
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  int file_ = -1;
};

TEST_F(ExternalTest, BuffersAreTheMemory) {
  CUexternalMemory memory = nullptr;
  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = describe(file_);
  ASSERT_OK(cuImportExternalMemory(&memory, &description));
  EXPECT_EQ(::fcntl(file_, F_GETFD), -1) << "the driver has it now";
  const CUdeviceptr whole = buffer(memory, 0, kBytes), half = buffer(memory, kBytes / 2, 4096);
  EXPECT_OK(cuMemsetD32_v2(address_, 9, kBytes / 4));
  uint32_t word = 0;
  EXPECT_OK(cuMemcpyDtoH_v2(&word, half, 4));
  EXPECT_EQ(word, 9U);
  EXPECT_EQ(launch("fill", nullptr, whole, kBytes / 4, 10), CUDA_SUCCESS);
  EXPECT_OK(cuMemcpyDtoH_v2(&word, address_ + kBytes - 4, 4));
  EXPECT_EQ(word, 10U);
  // A buffer outlives the object that it is of.
  EXPECT_OK(cuDestroyExternalMemory(memory));
  EXPECT_CU(cuDestroyExternalMemory(memory), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuMemFree_v2(whole));
  EXPECT_OK(cuMemcpyDtoH_v2(&word, half, 4));
  EXPECT_OK(cuMemFree_v2(half));
  EXPECT_CU(cuMemFree_v2(half), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(&word, half, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExternalTest, WrongCalls) {
  CUexternalMemory memory = nullptr;
  CUDA_EXTERNAL_MEMORY_HANDLE_DESC description = describe(file_);
  EXPECT_CU(cuImportExternalMemory(nullptr, &description), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuImportExternalMemory(&memory, nullptr), CUDA_ERROR_INVALID_VALUE);
  description.size = 0;
  EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_INVALID_VALUE);
  description.size = 2 * kBytes;
  EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_INVALID_VALUE);
  description = describe(-1);
  EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_INVALID_VALUE);
  description = describe(file_);
  description.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP;
  EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_NOT_SUPPORTED);
  description.type = static_cast<CUexternalMemoryHandleType>(77);
  EXPECT_CU(cuImportExternalMemory(&memory, &description), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDestroyExternalMemory(nullptr), CUDA_ERROR_INVALID_HANDLE);
  description = describe(file_);
  ASSERT_OK(cuImportExternalMemory(&memory, &description));
  CUdeviceptr address = 0;
  CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {kBytes - 64, 128, 0, {}};
  EXPECT_CU(cuExternalMemoryGetMappedBuffer(&address, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
  buffer = {0, 128, 1, {}};
  EXPECT_CU(cuExternalMemoryGetMappedBuffer(&address, memory, &buffer), CUDA_ERROR_INVALID_VALUE);
  buffer = {0, 128, 0, {}};
  EXPECT_CU(cuExternalMemoryGetMappedBuffer(&address, nullptr, &buffer), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuDestroyExternalMemory(memory));
}

}  // namespace
}  // namespace vgpu::conformance
