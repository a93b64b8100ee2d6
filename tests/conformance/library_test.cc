// Libraries and kernels: modules that belong to no context.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

class LibraryTest : public ContextTest {
 protected:
  void SetUp() override {
    ContextTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuLibraryLoadData(&library_, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  void TearDown() override {
    if (library_ != nullptr) EXPECT_OK(cuLibraryUnload(library_));
    ContextTest::TearDown();
  }
  CUlibrary library_ = nullptr;
};

TEST_F(LibraryTest, Kernels) {
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryGetKernel(&kernel, library_, "fill"));
  EXPECT_CU(cuLibraryGetKernel(&kernel, library_, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CU(cuLibraryGetKernel(nullptr, library_, "fill"), CUDA_ERROR_INVALID_VALUE);
  const char* name = nullptr;
  EXPECT_OK(cuKernelGetName(&name, kernel));
  EXPECT_EQ(std::string(name), "fill");
  CUlibrary owner = nullptr;
  EXPECT_OK(cuKernelGetLibrary(&owner, kernel));
  EXPECT_EQ(owner, library_);
  unsigned count = 0;
  EXPECT_OK(cuLibraryGetKernelCount(&count, library_));
  EXPECT_EQ(count, 6U);
  std::vector<CUkernel> all(count);
  EXPECT_OK(cuLibraryEnumerateKernels(all.data(), count, library_));
  EXPECT_NE(std::find(all.begin(), all.end(), kernel), all.end());
}

TEST_F(LibraryTest, LaunchAsFunctionAndAsKernel) {
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuLibraryGetKernel(&kernel, library_, "fill"));
  ASSERT_OK(cuKernelGetFunction(&function, kernel));
  const Words words(32);
  CUdeviceptr out = words.at();
  uint32_t n = 32, value = 1;
  void* params[] = {&out, &n, &value};
  for (CUfunction each : {function, reinterpret_cast<CUfunction>(kernel)}) {
    ++value;
    EXPECT_OK(cuLaunchKernel(each, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_EQ(words.read(), std::vector<uint32_t>(32, value));
  }
}

TEST_F(LibraryTest, GlobalsAndModule) {
  CUdeviceptr address = 0, same = 0;
  size_t bytes = 0;
  ASSERT_OK(cuLibraryGetGlobal(&address, &bytes, library_, "counter"));
  EXPECT_EQ(bytes, 4U);
  CUmodule module = nullptr;
  ASSERT_OK(cuLibraryGetModule(&module, library_));
  EXPECT_OK(cuModuleGetGlobal_v2(&same, &bytes, module, "counter"));
  EXPECT_EQ(same, address);
  EXPECT_CU(cuLibraryGetGlobal(&address, &bytes, library_, "nothing"), CUDA_ERROR_NOT_FOUND);
}

// A library outlives the primary context; its variables begin anew with the next one.
TEST_F(LibraryTest, VariablesAfterReset) {
  CUkernel kernel = nullptr;
  CUdeviceptr address = 0;
  uint32_t value = 9;
  ASSERT_OK(cuLibraryGetKernel(&kernel, library_, "fill"));
  ASSERT_OK(cuLibraryGetGlobal(&address, nullptr, library_, "counter"));
  EXPECT_OK(cuMemcpyHtoD_v2(address, &value, sizeof value));
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(device_));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, device_));
  ASSERT_OK(cuCtxSetCurrent(context_));
  ASSERT_OK(cuLibraryGetGlobal(&address, nullptr, library_, "counter"));
  EXPECT_OK(cuMemcpyDtoH_v2(&value, address, sizeof value));
  EXPECT_EQ(value, 7U);
  const Words words(32);
  CUdeviceptr out = words.at();
  uint32_t n = 32;
  void* params[] = {&out, &n, &value};
  auto* function = reinterpret_cast<CUfunction>(kernel);
  EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(32, 7));
}

TEST_F(LibraryTest, KernelAttributes) {
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryGetKernel(&kernel, library_, "add"));
  int value = -1;
  EXPECT_OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, device_));
  EXPECT_GE(value, 32);
  EXPECT_OK(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2048, kernel, device_));
  EXPECT_OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_NONE, device_));
  size_t offset = 9, bytes = 9;
  EXPECT_OK(cuKernelGetParamInfo(kernel, 1, &offset, &bytes));
  EXPECT_EQ(offset, 8U);
  EXPECT_EQ(bytes, 4U);
}

TEST_F(LibraryTest, BadInput) {
  CUlibrary library = nullptr;
  EXPECT_CU(cuLibraryLoadData(nullptr, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLibraryLoadData(&library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLibraryLoadFromFile(&library, "/nonexistent/file", nullptr, nullptr, 0, nullptr,
                                  nullptr, 0),
            CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_CU(cuLibraryUnload(garbage_handle<CUlibrary>()), CUDA_ERROR_INVALID_HANDLE);
  CUkernel kernel = nullptr;
  EXPECT_CU(cuLibraryGetKernel(&kernel, garbage_handle<CUlibrary>(), "fill"),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(LibraryTest, NoUnifiedFunctions) {
  int supported = -1;
  ASSERT_OK(
      cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, device_));
  if (supported != 0) GTEST_SKIP() << "this device has unified functions";
  void* pointer = nullptr;
  EXPECT_CU(cuLibraryGetUnifiedFunction(&pointer, library_, "add"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CU(cuLibraryGetUnifiedFunction(nullptr, library_, "add"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLibraryGetUnifiedFunction(&pointer, library_, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLibraryGetUnifiedFunction(&pointer, garbage_handle<CUlibrary>(), "add"),
            CUDA_ERROR_INVALID_HANDLE);
}

// Nothing is current, and the context that was used last is gone.
TEST_F(LibraryTest, LoadsWhenItsContextHasEnded) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  CUcontext created = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&created, 0, device_));
  {
    const Words words(4);
    EXPECT_OK(cuMemsetD32_v2(words.at(), 1, 4));
  }
  EXPECT_OK(cuCtxDestroy_v2(created));
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  EXPECT_OK(cuLibraryGetKernel(&kernel, library, "fill"));
  ASSERT_OK(cuCtxSetCurrent(context_));
  const Words words(32);
  CUdeviceptr out = words.at();
  uint32_t n = 32, value = 5;
  void* params[] = {&out, &n, &value};
  EXPECT_OK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, nullptr,
                           params, nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(32, 5));
  EXPECT_OK(cuLibraryUnload(library));
}

// Its variables are loaded where it is used first: too little memory is that call's error.
TEST_F(LibraryTest, WhatAFurtherContextHasNoRoomForIsRefusedThere) {
  constexpr size_t kMiB = size_t{1} << 20;
  const std::string text = ptx_module(
      ".visible .global .align 16 .b8 large[67108864];\n"
      ".visible .entry touch(.param .u64 out) {\n"
      "  .reg .u64 %rd<2>;\n  mov.u64 %rd1, large;\n  st.global.u32 [%rd1], 1;\n  ret;\n}\n");
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, text.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "touch"));
  CUdeviceptr out = 0;
  void* params[] = {&out};
  const auto launch = [&] {
    return driver().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0,
                                   nullptr, params, nullptr);
  };
  EXPECT_EQ(launch(), CUDA_SUCCESS);
  EXPECT_OK(cuCtxSynchronize());
  CUcontext further = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&further, 0, device_));
  std::vector<CUdeviceptr> blocks;
  for (size_t bytes = 1024 * kMiB; bytes >= 2 * kMiB;) {
    CUdeviceptr block = 0;
    if (driver().cuMemAlloc_v2(&block, bytes) == CUDA_SUCCESS) {
      blocks.push_back(block);
    } else {
      bytes /= 2;
    }
  }
  EXPECT_EQ(launch(), CUDA_ERROR_OUT_OF_MEMORY);
  for (const CUdeviceptr block : blocks) EXPECT_OK(cuMemFree_v2(block));
  EXPECT_EQ(launch(), CUDA_SUCCESS);  // nothing else has come of it
  EXPECT_OK(cuCtxSynchronize());
  ASSERT_OK(cuCtxDestroy_v2(further));
  EXPECT_OK(cuLibraryUnload(library));
}

}  // namespace
}  // namespace vgpu::conformance
