// What ends while kernels of several devices run, or has been broken by one of them.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "devices_support.h"

namespace vgpu::conformance {
namespace {

class DevicesEndsTest : public DevicesTest {
 protected:
  static constexpr size_t kStep = 2 * kMiB;

  // In the current context, whose kernels `module` has: calls `end` while a kernel is yet to come
  // that writes to `memory`. Whoever does not wait for it breaks the context.
  static void end_beside_work(CUmodule module, CUdeviceptr memory,
                              const std::function<void()>& end) {
    constexpr uint32_t kMany = 4 << 20;
    CUfunction add = nullptr, fill = nullptr;
    ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
    ASSERT_OK(cuModuleGetFunction(&fill, module, "fill"));
    const Words busy(kMany);
    for (int i = 0; i < 12; ++i) launch_in(add, busy.at(), 1, nullptr, kMany);
    launch_in(fill, memory, 3);
    end();
    EXPECT_OK(cuCtxSynchronize());
  }
  bool maps_memory() {
    int supported = 0;
    EXPECT_OK(cuDeviceGetAttribute(&supported,
                                   CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1));
    return supported != 0;
  }
  // Memory of a device's, mapped for it.
  static CUdeviceptr map(int device, CUmemGenericAllocationHandle* handle) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemCreate(handle, kStep, &properties, 0));
    EXPECT_OK(cuMemAddressReserve(&address, kStep, 0, 0, 0));
    EXPECT_OK(cuMemMap(address, kStep, 0, *handle, 0));
    EXPECT_OK(cuMemSetAccess(address, kStep, &access, 1));
    return address;
  }
  static void unmap(CUdeviceptr address, CUmemGenericAllocationHandle handle) {
    EXPECT_OK(cuMemUnmap(address, kStep));
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_OK(cuMemAddressFree(address, kStep));
  }
};

TEST_F(DevicesEndsTest, HostMemoryGoesBehindItsKernels) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  there([&] {
    void* pinned = nullptr;
    CUdeviceptr managed = 0;
    ASSERT_OK(cuMemHostAlloc(&pinned, kWords * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    end_beside_work(other_module_, reinterpret_cast<CUdeviceptr>(pinned),
                    [&] { EXPECT_OK(cuMemFreeHost(pinned)); });
    ASSERT_OK(cuMemAllocManaged(&managed, kWords * 4, CU_MEM_ATTACH_GLOBAL));
    end_beside_work(other_module_, managed, [&] { EXPECT_OK(cuMemFree_v2(managed)); });
  });
}

TEST_F(DevicesEndsTest, MappingsGoBehindTheirKernels) {
  if (!maps_memory()) GTEST_SKIP() << "no virtual memory management here";
  CUmemGenericAllocationHandle handle = 0;
  there([&] {
    const CUdeviceptr address = map(1, &handle);
    end_beside_work(other_module_, address, [&] { unmap(address, handle); });
  });
  for (const int device : {0, 1}) {
    CUcontext created = nullptr;
    CUmodule module = nullptr;
    ASSERT_OK(cuCtxCreate_v2(&created, 0, device));
    ASSERT_OK(cuModuleLoadData(&module, kKernels));
    const CUdeviceptr address = map(device, &handle);
    end_beside_work(module, address, [&] { unmap(address, handle); });
    EXPECT_OK(cuCtxDestroy_v2(created));
  }
}

// A library has its variables in each context; with a context they begin anew, and only there.
TEST_F(DevicesEndsTest, ResetsRenewVariablesOfTheirDevice) {
  CUlibrary library = nullptr;
  CUkernel add = nullptr;
  there([&] {  // loaded there, as it happens
    ASSERT_OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  });
  ASSERT_OK(cuLibraryGetKernel(&add, library, "add"));
  const auto counter = [&] {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    EXPECT_OK(cuLibraryGetGlobal(&address, &bytes, library, "counter"));
    return address;
  };
  const auto increase = [&](uint32_t value) {
    launch_in(reinterpret_cast<CUfunction>(add), counter(), value, nullptr, 1);
  };
  const auto value = [&] { return read(counter(), 1)[0]; };
  increase(10);
  there([&] { increase(100); });
  CUcontext kept = nullptr;  // with it device 1 goes on when its primary context is reset
  ASSERT_OK(cuCtxCreate_v2(&kept, 0, 1));
  increase(1000);
  EXPECT_OK(cuCtxPopCurrent_v2(nullptr));

  ASSERT_OK(cuDevicePrimaryCtxReset_v2(1));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&other_, 1));
  there([&] {
    EXPECT_EQ(value(), 7U);
    increase(200);
    EXPECT_EQ(value(), 207U);
  });
  EXPECT_EQ(value(), 17U);
  inside(kept, [&] { EXPECT_EQ(value(), 1007U); });

  module_ = nullptr;  // it goes with its context
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  EXPECT_EQ(value(), 7U);
  increase(20);
  EXPECT_EQ(value(), 27U);
  there([&] { EXPECT_EQ(value(), 207U); });
  inside(kept, [&] { EXPECT_EQ(value(), 1007U); });
  EXPECT_OK(cuCtxDestroy_v2(kept));

  ASSERT_OK(cuDevicePrimaryCtxReset_v2(1));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&other_, 1));
  there([&] {
    EXPECT_EQ(value(), 7U);
    increase(1);
    EXPECT_EQ(value(), 8U);
  });
  EXPECT_EQ(value(), 27U);
  EXPECT_OK(cuLibraryUnload(library));
}

TEST_F(DevicesEndsTest, AFaultOfTheFirstDeviceIsItsOwn) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  EXPECT_EQ(run_in_fresh_process("DevicesEndsChildTest.DISABLED_AFaultOfTheFirst"), 0);
}

class DevicesEndsChildTest : public DevicesEndsTest {};

void CUDA_CB count_call(void* calls) { ++*static_cast<int*>(calls); }

// Everything that is made for no context in particular, with that of the first device broken.
TEST_F(DevicesEndsChildTest, DISABLED_AFaultOfTheFirst) {
  void* kept = nullptr;
  CUevent shared = nullptr;
  bool shares = false;
  there([&] {
    ASSERT_OK(cuMemHostAlloc(&kept, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    shares = driver().cuEventCreate(&shared, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
             CUDA_SUCCESS;
  });
  CUdeviceptr nowhere = kNowhere;
  void* params[] = {&nowhere};
  ASSERT_OK(cuLaunchKernel(function("poke"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  there([&] {
    void* pinned = nullptr;
    CUdeviceptr managed = 0;
    ASSERT_OK(cuMemHostAlloc(&pinned, kWords * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    launch_in(other_function("fill"), reinterpret_cast<CUdeviceptr>(pinned), 5);
    ASSERT_OK(cuMemAllocManaged(&managed, kWords * 4, CU_MEM_ATTACH_GLOBAL));
    launch_in(other_function("fill"), managed, 6);
    int calls = 0;
    for (int i = 0; i < 1500; ++i) ASSERT_OK(cuLaunchHostFunc(nullptr, count_call, &calls));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(calls, 1500);
    EXPECT_EQ(static_cast<uint32_t*>(pinned)[kWords - 1], 5U);
    EXPECT_EQ(reinterpret_cast<uint32_t*>(managed)[kWords - 1], 6U);
    if (shares) {
      CUipcEventHandle handle = {};
      EXPECT_OK(cuIpcGetEventHandle(&handle, shared));
      EXPECT_OK(cuEventRecord(shared, nullptr));
      EXPECT_OK(cuStreamWaitEvent(nullptr, shared, 0));
      EXPECT_OK(cuEventSynchronize(shared));
      EXPECT_OK(cuEventDestroy_v2(shared));
    }
    EXPECT_OK(cuMemFreeHost(kept));
    EXPECT_OK(cuMemFreeHost(pinned));
    EXPECT_OK(cuMemFree_v2(managed));
    if (maps_memory()) {
      CUmemGenericAllocationHandle handle = 0;
      const CUdeviceptr address = map(1, &handle);
      EXPECT_OK(cuMemsetD32_v2(address, 1, kWords));
      unmap(address, handle);
    }
    CUcontext created = nullptr;
    EXPECT_OK(cuCtxCreate_v2(&created, 0, 1));
    EXPECT_OK(cuCtxDestroy_v2(created));
    EXPECT_OK(cuCtxSynchronize());
  });
  ::_exit(HasFailure() ? 1 : 0);  // the first context's end says what happened
}

// Others go on working with a device's memory while its primary context ends and begins again.
TEST_F(DevicesEndsTest, ADeviceThatClosesIsUsedByOthers) {
  int supported = 0;
  EXPECT_OK(
      cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1));
  if (supported == 0) GTEST_SKIP() << "no memory of a device but its contexts'";
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr away = 0;
  ASSERT_OK(cuMemCreate(&handle, 2 * kMiB, &properties, 0));
  ASSERT_OK(cuMemAddressReserve(&away, 2 * kMiB, 0, 0, 0));
  ASSERT_OK(cuMemMap(away, 2 * kMiB, 0, handle, 0));
  CUmemAccessDesc access[2] = {
      {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
      {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  ASSERT_OK(cuMemSetAccess(away, 2 * kMiB, access, 2));
  const Words here(kWords);
  std::atomic<bool> done{false};
  std::thread resets([&] {
    while (!done.load()) {
      CUcontext context = nullptr;
      EXPECT_OK(cuDevicePrimaryCtxReset_v2(1));
      EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 1));
    }
  });
  Stream stream;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  for (uint32_t i = 1; std::chrono::steady_clock::now() < end; ++i) {
    ASSERT_OK(cuMemsetD32Async(away, i, kWords, stream));
    ASSERT_OK(cuMemcpyDtoDAsync_v2(here.at(), away, kWords * 4, stream));
    ASSERT_OK(cuMemcpyAsync(away + kWords * 4, here.at(), kWords * 4, stream));
    ASSERT_OK(cuStreamSynchronize(stream));
    ASSERT_EQ(here.read(), all(i));
  }
  done = true;
  resets.join();
  EXPECT_OK(cuMemUnmap(away, 2 * kMiB));
  EXPECT_OK(cuMemRelease(handle));
  EXPECT_OK(cuMemAddressFree(away, 2 * kMiB));
}

// Whoever waits for one device's end keeps nobody from the other.
TEST_F(DevicesEndsTest, AResetHoldsUpItsDeviceOnly) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  void* flag = nullptr;
  EXPECT_OK(cuMemHostAlloc(&flag, 4096, CU_MEMHOSTALLOC_PORTABLE));
  auto* const word = static_cast<volatile uint32_t*>(flag);
  *word = 0;
  there([&] {
    auto address = reinterpret_cast<CUdeviceptr>(flag);
    void* params[] = {&address};
    EXPECT_OK(
        cuLaunchKernel(other_function("gate"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  });
  std::atomic<bool> over{false};
  std::atomic<bool> begun{false};
  std::thread reset([&] {
    begun = true;
    EXPECT_OK(cuDevicePrimaryCtxReset_v2(1));
    over = true;
  });
  while (!begun) std::this_thread::yield();
  CUcontext made = nullptr, primary = nullptr;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
  while (std::chrono::steady_clock::now() < end) {
    EXPECT_OK(cuCtxCreate_v4(&made, nullptr, 0, 0));
    EXPECT_OK(cuCtxDestroy_v2(made));
    EXPECT_OK(cuDevicePrimaryCtxRetain(&primary, 0));
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
  }
  EXPECT_FALSE(over.load()) << "the kernel still runs";
  *word = 1;
  reset.join();
  EXPECT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuMemFreeHost(flag));
  EXPECT_OK(cuDevicePrimaryCtxRetain(&primary, 1));
}

}  // namespace
}  // namespace vgpu::conformance
