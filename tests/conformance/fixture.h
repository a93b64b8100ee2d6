// The ground that the tests of all families stand on: a current context, a module, a closed gate.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_FIXTURE_H_
#define VGPU_TESTS_CONFORMANCE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend.h"
#include "kernel_text.h"

namespace vgpu::conformance {

// The device's primary context is current.
class ContextTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDeviceGet(&device_, 0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, device_));
    ASSERT_OK(cuCtxSetCurrent(context_));
  }
  void TearDown() override {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuCtxSetCurrent(nullptr));
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(device_));
  }
  CUdevice device_ = -1;
  CUcontext context_ = nullptr;
};

// And the kernels above are loaded.
class KernelTest : public ContextTest {
 protected:
  void SetUp() override {
    ContextTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuModuleLoadData(&module_, kKernels));
  }
  void TearDown() override {
    if (module_ != nullptr) EXPECT_OK(cuModuleUnload(module_));
    ContextTest::TearDown();
  }
  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
    return found;
  }
  // Launches fill or add over n words.
  CUresult launch(const char* name, CUstream stream, CUdeviceptr data, uint32_t n, uint32_t value) {
    void* params[] = {&data, &n, &value};
    return driver().cuLaunchKernel(function(name), (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream,
                                   params, nullptr);
  }
  CUmodule module_ = nullptr;
};

// Device memory of n words, freed at the end.
class Words {
 public:
  explicit Words(size_t n) : n_(n) { EXPECT_OK(cuMemAlloc_v2(&address_, n * 4)); }
  ~Words() { EXPECT_OK(cuMemFree_v2(address_)); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  CUdeviceptr at(size_t index = 0) const { return address_ + index * 4; }
  size_t bytes() const { return n_ * 4; }
  std::vector<uint32_t> read() const {
    std::vector<uint32_t> values(n_, 0xdeadbeef);
    EXPECT_OK(cuMemcpyDtoH_v2(values.data(), address_, bytes()));
    return values;
  }
  void write(const std::vector<uint32_t>& values) const {
    EXPECT_OK(cuMemcpyHtoD_v2(address_, values.data(), bytes()));
  }

 private:
  size_t n_;
  CUdeviceptr address_ = 0;
};

// Whether kernels reach host memory: a device on another host does not.
inline bool maps_host_memory() {
  int maps = 0;
  EXPECT_OK(cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
  return maps != 0;
}
#define SKIP_UNLESS_HOST_MEMORY_IS_MAPPED() \
  if (!maps_host_memory()) GTEST_SKIP() << "kernels reach no host memory here"

// A kernel that holds a stream until open() is called: makes "not ready" certain. Where it cannot
// look at host memory, a copy in a stream of the gate's own opens it.
class Gate {
 public:
  Gate(CUfunction gate, CUstream stream) : stream_(stream) {
    CUdeviceptr address = maps_host_memory() ? in_host_memory() : in_device_memory();
    void* params[] = {&address};
    EXPECT_OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  }
  ~Gate() {
    open();
    EXPECT_OK(cuStreamSynchronize(stream_));
    if (opener_ == nullptr) {
      EXPECT_OK(cuMemFreeHost(flag_));
    } else {
      EXPECT_OK(cuStreamDestroy_v2(opener_));
      EXPECT_OK(cuMemFree_v2(device_flag_));
    }
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  // Release: what the host wrote before is seen by the kernel that goes on.
  void open() {
    if (opener_ == nullptr) return __atomic_store_n(flag_, 1, __ATOMIC_RELEASE);
    if (std::exchange(opened_, true)) return;
    static const uint32_t one = 1;
    EXPECT_OK(cuCtxPushCurrent_v2(context_));
    EXPECT_OK(cuMemcpyHtoDAsync_v2(device_flag_, &one, sizeof(one), opener_));
    CUcontext ours = nullptr;
    EXPECT_OK(cuCtxPopCurrent_v2(&ours));
  }

 private:
  CUdeviceptr in_host_memory() {
    void* memory = nullptr;
    EXPECT_OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    flag_ = static_cast<uint32_t*>(memory);
    *flag_ = 0;
    CUdeviceptr address = 0;
    EXPECT_OK(cuMemHostGetDevicePointer_v2(&address, flag_, 0));
    return address;
  }
  CUdeviceptr in_device_memory() {
    EXPECT_OK(cuCtxGetCurrent(&context_));
    EXPECT_OK(cuStreamCreate(&opener_, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuMemAlloc_v2(&device_flag_, sizeof(uint32_t)));
    const uint32_t closed = 0;
    EXPECT_OK(cuMemcpyHtoDAsync_v2(device_flag_, &closed, sizeof(closed), opener_));
    EXPECT_OK(cuStreamSynchronize(opener_));
    return device_flag_;
  }

  uint32_t* flag_ = nullptr;
  CUdeviceptr device_flag_ = 0;
  CUcontext context_ = nullptr;
  CUstream opener_ = nullptr, stream_ = nullptr;
  bool opened_ = false;
};

// A stream or event that ends with the scope.
class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    EXPECT_OK(cuStreamCreate(&stream_, flags));
  }
  ~Stream() { EXPECT_OK(cuStreamDestroy_v2(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator CUstream() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  CUstream stream_ = nullptr;
};
class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DEFAULT) { EXPECT_OK(cuEventCreate(&event_, flags)); }
  ~Event() { EXPECT_OK(cuEventDestroy_v2(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator CUevent() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  CUevent event_ = nullptr;
};

// A file of this process's own, so that back ends may be tested side by side.
inline std::string temporary_path(const char* name) {
  return ::testing::TempDir() + "vgpu-" + std::to_string(::getpid()) + "-" + name;
}

// A handle that nobody gave out: aligned, and readable, so that a look behind it shows nothing.
template <typename Handle>
Handle garbage_handle() {
  alignas(64) static uint64_t bytes[64] = {0x1234567812345678};
  return reinterpret_cast<Handle>(bytes);
}

// An address that no allocation has.
inline constexpr CUdeviceptr kNowhere = 0x40;

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_FIXTURE_H_
