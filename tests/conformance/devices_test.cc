// Several devices: each has its contexts, streams, code and errors of its own.
// SPDX-License-Identifier: Apache-2.0
#include "devices_support.h"

namespace vgpu::conformance {
namespace {

TEST_F(DevicesTest, KernelsRunOnTheDeviceOfTheirContext) {
  const Words here(kWords);
  const CUdeviceptr away = allocate_there();
  launch_in(function("fill"), here.at(), 3);
  there([&] { launch_in(other_function("fill"), away, 4); });
  launch_in(function("add"), here.at(), 10);
  there([&] {
    launch_in(other_function("add"), away, 20);
    CUdevice device = -1;
    EXPECT_OK(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 1);
    EXPECT_EQ(read(away), all(24));
  });
  EXPECT_EQ(here.read(), all(13));
  CUdeviceptr data = away;
  uint32_t n = kWords, value = 1;
  void* params[] = {&data, &n, &value};
  EXPECT_CU(cuLaunchKernel(other_function("fill"), 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  free_there(away);
}

// Copies and fills by address, whichever context is current.
// The order of a stream holds for work on another device's memory.
// A copy that the host waits for comes behind all work of both contexts.
TEST_F(DevicesTest, DefaultStreamsHoldOnlyTheirDevice) {
  const CUdeviceptr away = allocate_there();
  {
    Gate gate(function("gate"), nullptr);
    there([&] {
      launch_in(other_function("fill"), away, 12);
      EXPECT_OK(cuCtxSynchronize());
      EXPECT_EQ(read(away), all(12));
    });
    EXPECT_CU(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  }
  free_there(away);
}

TEST_F(DevicesTest, OthersStreamsAndEventsAreTold) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUdevice device = -1;
  there([&] {
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuEventCreate(&event, 0));
  });
  EXPECT_OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 1);
  Stream mine;
  EXPECT_CU(cuEventRecord(event, mine), CUDA_ERROR_INVALID_HANDLE);
  there([&] { EXPECT_OK(cuEventRecord(event, stream)); });
  EXPECT_OK(cuStreamWaitEvent(mine, event, 0));
  EXPECT_OK(cuStreamSynchronize(mine));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

// What a library's kernels do on one device, its variables on the other do not see.
TEST_F(DevicesTest, LibrariesHaveVariablesOnEach) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "add"));
  CUdeviceptr here = 0, away = 0;
  size_t bytes = 0;
  ASSERT_OK(cuLibraryGetGlobal(&here, &bytes, library, "counter"));
  there([&] { ASSERT_OK(cuLibraryGetGlobal(&away, &bytes, library, "counter")); });
  EXPECT_NE(here, away);
  EXPECT_EQ(ordinal(away), 1);
  launch_in(reinterpret_cast<CUfunction>(kernel), here, 100, nullptr, 1);
  there([&] {
    launch_in(reinterpret_cast<CUfunction>(kernel), away, 1000, nullptr, 1);
    EXPECT_EQ(read(away, 1)[0], 1007U);
  });
  EXPECT_EQ(read(here, 1)[0], 107U);
  CUfunction resolved = nullptr;
  there([&] { EXPECT_OK(cuKernelGetFunction(&resolved, kernel)); });
  EXPECT_OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, 1));
  EXPECT_CU(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, count_),
      CUDA_ERROR_INVALID_DEVICE);
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(DevicesTest, AttributesOfKernelsAreEachDevices) {
  constexpr auto kShared = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  constexpr int kBytes = 64 * 1024;  // more than without asking
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "add"));
  const auto launched = [&] {
    CUdeviceptr data = 0;
    uint32_t n = 0, value = 1;
    void* params[] = {&data, &n, &value};
    return driver().cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, kBytes,
                                   nullptr, params, nullptr);
  };
  EXPECT_EQ(launched(), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuKernelSetAttribute(kShared, kBytes, kernel, 0));
  EXPECT_EQ(launched(), CUDA_SUCCESS);
  int here = 0, away = -1;
  EXPECT_OK(cuKernelGetAttribute(&here, kShared, kernel, 0));
  EXPECT_OK(cuKernelGetAttribute(&away, kShared, kernel, 1));
  EXPECT_EQ(here, kBytes);
  EXPECT_LT(away, kBytes);
  there([&] {
    EXPECT_EQ(launched(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuKernelSetAttribute(kShared, kBytes, kernel, 1));
    EXPECT_EQ(launched(), CUDA_SUCCESS);
    EXPECT_OK(cuCtxSynchronize());
  });
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(DevicesTest, ADeviceIsToldOfKernelsBeforeItHasAContext) {
  if (count_ < 3) GTEST_SKIP() << "two devices";
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ASSERT_OK(cuLibraryGetKernel(&kernel, library, "sum"));
  EXPECT_OK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 2));
  unsigned flags = 0;
  int active = -1;
  EXPECT_OK(cuDevicePrimaryCtxGetState(2, &flags, &active));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(DevicesTest, EachHasItsPrimaryContext) {
  unsigned flags = 0;
  int active = 0;
  const CUdeviceptr lost = allocate_there();
  EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 1);
  const Words here(kWords);
  launch_in(function("fill"), here.at(), 31);
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(1));
  EXPECT_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_EQ(here.read(), all(31));
  uint32_t word = 0;
  EXPECT_CU(cuMemcpyDtoH_v2(&word, lost, 4), CUDA_ERROR_INVALID_VALUE);  // it went with its context
  CUcontext again = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&again, 1));
  EXPECT_EQ(again, other_);
  there([&] {
    ASSERT_OK(cuModuleLoadData(&other_module_, kKernels));
    CUdeviceptr address = 0, counter = 0;
    size_t bytes = 0;
    ASSERT_OK(cuMemAlloc_v2(&address, kWords * 4));
    launch_in(other_function("fill"), address, 32);
    EXPECT_EQ(read(address), all(32));
    EXPECT_OK(cuModuleGetGlobal_v2(&counter, &bytes, other_module_, "counter"));
    EXPECT_EQ(read(counter, 1)[0], 7U);
  });
}

// Reset while a created context of the device goes on.
TEST_F(DevicesTest, CreatedContextsOutliveThePrimaryOne) {
  CUcontext created = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&created, 0, 1));
  {
    const Words words(kWords);
    EXPECT_EQ(ordinal(words.at()), 1);
    ASSERT_OK(cuDevicePrimaryCtxReset_v2(1));
    EXPECT_OK(cuMemsetD32_v2(words.at(), 3, kWords));
    EXPECT_EQ(words.read(), all(3));
    const Words more(4 * kMiB);
    EXPECT_OK(cuMemsetD32_v2(more.at(), 4, kWords));
  }
  EXPECT_OK(cuCtxDestroy_v2(created));
  EXPECT_OK(cuCtxSetCurrent(context_));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&other_, 1));
  there([&] {
    const Words words(kWords);
    EXPECT_OK(cuMemsetD32_v2(words.at(), 5, kWords));
    EXPECT_EQ(words.read(), all(5));
  });
}

TEST_F(DevicesTest, FaultsStayWithTheirDevice) {
  EXPECT_EQ(run_in_fresh_process("DevicesChildTest.DISABLED_Fault"), 0);
}

class DevicesChildTest : public DevicesTest {};

TEST_F(DevicesChildTest, DISABLED_Fault) {
  const Words here(kWords);
  there([&] {
    CUdeviceptr nowhere = kNowhere;
    void* params[] = {&nowhere};
    ASSERT_OK(
        cuLaunchKernel(other_function("poke"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr address = 0;
    EXPECT_CU(cuMemAlloc_v2(&address, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  launch_in(function("fill"), here.at(), 41);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(here.read(), all(41));
  if (count_ > 2) {
    CUcontext third = nullptr;
    ASSERT_OK(cuDevicePrimaryCtxRetain(&third, 2));
    inside(third, [&] {
      const Words words(kWords);
      EXPECT_OK(cuMemsetD32_v2(words.at(), 1, kWords));
      EXPECT_EQ(words.read(), all(1));
    });
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(2));
  }
  other_ = nullptr;  // its end says what happened
}

}  // namespace
}  // namespace vgpu::conformance
