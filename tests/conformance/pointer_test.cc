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

}  // namespace
}  // namespace vgpu::conformance
