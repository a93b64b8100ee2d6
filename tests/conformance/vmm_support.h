// Reserving addresses and creating memory for them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_VMM_SUPPORT_H_
#define VGPU_TESTS_CONFORMANCE_VMM_SUPPORT_H_

#include "fixture.h"

namespace vgpu::conformance {

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

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_VMM_SUPPORT_H_
