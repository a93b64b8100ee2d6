// Two devices: their primary contexts, the kernels in both, and who has what.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_DEVICES_SUPPORT_H_
#define VGPU_TESTS_CONFORMANCE_DEVICES_SUPPORT_H_

#include <functional>
#include <vector>

#include "fixture.h"

namespace vgpu::conformance {

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr uint32_t kWords = 1024;

// The primary context of device 0 is current, as ever; that of device 1 is at hand.
class DevicesTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuDeviceGetCount(&count_));
    if (count_ < 2) GTEST_SKIP() << "one device";
    ASSERT_OK(cuDevicePrimaryCtxRetain(&other_, 1));
    inside(other_, [this] { ASSERT_OK(cuModuleLoadData(&other_module_, kKernels)); });
  }
  void TearDown() override {
    if (other_ != nullptr) EXPECT_OK(cuDevicePrimaryCtxRelease_v2(1));
    KernelTest::TearDown();
  }
  // Runs with `context` current.
  static void inside(CUcontext context, const std::function<void()>& run) {
    ASSERT_OK(cuCtxPushCurrent_v2(context));
    run();
    EXPECT_OK(cuCtxPopCurrent_v2(nullptr));
  }
  void there(const std::function<void()>& run) { inside(other_, run); }
  CUfunction other_function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, other_module_, name));
    return found;
  }
  // fill or add, in whichever context is current.
  static void launch_in(CUfunction kernel, CUdeviceptr data, uint32_t value,
                        CUstream stream = nullptr, uint32_t n = kWords) {
    void* params[] = {&data, &n, &value};
    EXPECT_OK(cuLaunchKernel(kernel, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, params, nullptr));
  }
  CUdeviceptr allocate_there(size_t bytes = kWords * 4) {
    CUdeviceptr address = 0;
    there([&] { EXPECT_OK(cuMemAlloc_v2(&address, bytes)); });
    return address;
  }
  void free_there(CUdeviceptr address) {
    there([&] { EXPECT_OK(cuMemFree_v2(address)); });
  }
  static size_t free_bytes() {
    size_t free = 0, total = 0;
    EXPECT_OK(cuMemGetInfo_v2(&free, &total));
    return free;
  }
  static int ordinal(CUdeviceptr address) {
    int value = -1;
    EXPECT_OK(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    return value;
  }
  static std::vector<uint32_t> read(CUdeviceptr address, uint32_t n = kWords) {
    std::vector<uint32_t> values(n);
    EXPECT_OK(cuMemcpyDtoH_v2(values.data(), address, n * 4));
    return values;
  }
  static std::vector<uint32_t> all(uint32_t value) { return std::vector<uint32_t>(kWords, value); }

  int count_ = 0;
  CUcontext other_ = nullptr;
  CUmodule other_module_ = nullptr;
};

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_DEVICES_SUPPORT_H_
