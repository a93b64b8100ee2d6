// Several devices, and copies between contexts of one or of two.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

class PeerTest : public KernelTest {
 protected:
  static int devices() {
    int count = 0;
    EXPECT_OK(cuDeviceGetCount(&count));
    return count;
  }
  // Another context, current inside the scope.
  class Other {
   public:
    explicit Other(CUdevice device) {
      EXPECT_OK(cuCtxCreate_v2(&context_, 0, device));
      EXPECT_OK(cuCtxPopCurrent_v2(nullptr));
    }
    ~Other() { EXPECT_OK(cuCtxDestroy_v2(context_)); }
    Other(const Other&) = delete;
    Other& operator=(const Other&) = delete;
    CUcontext get() const { return context_; }
    template <typename Run>
    void inside(Run run) {
      EXPECT_OK(cuCtxPushCurrent_v2(context_));
      run();
      EXPECT_OK(cuCtxPopCurrent_v2(nullptr));
    }

   private:
    CUcontext context_ = nullptr;
  };
};

TEST_F(PeerTest, CopiesBetweenContexts) {
  Other other(devices() - 1);
  const Words here(64), back(64);
  CUdeviceptr there = 0;
  other.inside([&] { ASSERT_OK(cuMemAlloc_v2(&there, 256)); });
  std::vector<uint32_t> values(64);
  for (uint32_t i = 0; i < 64; ++i) values[i] = i * 3;
  here.write(values);
  ASSERT_OK(cuMemcpyPeer(there, other.get(), here.at(), context_, 256));
  Stream stream;
  ASSERT_OK(cuMemcpyPeerAsync(back.at(), context_, there, other.get(), 128, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  CUDA_MEMCPY3D_PEER box = {};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcContext = other.get();
  box.srcDevice = there + 128;
  box.dstContext = context_;
  box.dstDevice = back.at(32);
  box.srcPitch = box.dstPitch = 64;
  box.WidthInBytes = 64;
  box.Height = 2;
  box.Depth = 1;
  ASSERT_OK(cuMemcpy3DPeer(&box));
  EXPECT_EQ(back.read(), values);
  EXPECT_OK(cuMemcpy3DPeerAsync(&box, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  other.inside([&] { EXPECT_OK(cuMemFree_v2(there)); });
}

TEST_F(PeerTest, BadContexts) {
  Other other(0);
  const Words words(64);
  const auto wrong = garbage_handle<CUcontext>();
  EXPECT_CU(cuMemcpyPeer(words.at(), wrong, words.at(32), context_, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuMemcpyPeer(words.at(), context_, words.at(32), wrong, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuMemcpyPeer(kNowhere, context_, words.at(), context_, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxEnablePeerAccess(wrong, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxEnablePeerAccess(other.get(), 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxEnablePeerAccess(other.get(), 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_CU(cuCtxDisablePeerAccess(other.get()), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_CU(cuMemcpy3DPeer(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PeerTest, DevicesAreTold) {
  const int count = devices();
  if (count < 2) GTEST_SKIP() << "one device";
  for (CUdevice device = 0; device < count; ++device) {
    CUuuid uuid = {}, first = {};
    EXPECT_OK(cuDeviceGetUuid_v2(&uuid, device));
    EXPECT_OK(cuDeviceGetUuid_v2(&first, 0));
    EXPECT_EQ(std::memcmp(&uuid, &first, sizeof uuid) == 0, device == 0);
    char pci[32] = {};
    CUdevice found = -1;
    EXPECT_OK(cuDeviceGetPCIBusId(pci, sizeof pci, device));
    EXPECT_OK(cuDeviceGetByPCIBusId(&found, pci));
    EXPECT_EQ(found, device);
    int can = -1;
    EXPECT_OK(cuDeviceCanAccessPeer(&can, 0, device));
    EXPECT_EQ(can, device == 0 ? 0 : 1);
  }
  int value = 0;
  EXPECT_OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
  EXPECT_EQ(value, 1);
  EXPECT_CU(cuDeviceGetName(nullptr, 0, count), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(PeerTest, AtomicsBetweenDevices) {
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD,
                                          CU_ATOMIC_OPERATION_FLOAT_MIN};
  const auto unknown = static_cast<CUatomicOperation>(CU_ATOMIC_OPERATION_MAX);
  unsigned capabilities[2] = {77, 77};
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, device_, device_),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, device_, 99),
            CUDA_ERROR_INVALID_DEVICE);
  if (devices() < 2) return;
  int native = -1;
  ASSERT_OK(
      cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1));
  ASSERT_OK(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 2, 0, 1));
  EXPECT_EQ((capabilities[0] & CU_ATOMIC_CAPABILITY_SCALAR_32) != 0, native != 0);
  EXPECT_NE(capabilities[1], 77U);
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(capabilities, operations, 0, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(nullptr, operations, 2, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(capabilities, nullptr, 2, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetP2PAtomicCapabilities(capabilities, &unknown, 1, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PeerTest, EachDeviceHasItsContextsAndMemory) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  Other other(1);
  size_t before = 0, after = 0, total = 0, here = 0, here_after = 0;
  EXPECT_OK(cuMemGetInfo_v2(&here, &total));
  CUdeviceptr there = 0;
  other.inside([&] {
    CUdevice device = -1;
    EXPECT_OK(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 1);
    EXPECT_OK(cuMemGetInfo_v2(&before, &total));
    ASSERT_OK(cuMemAlloc_v2(&there, 32 << 20));
    EXPECT_OK(cuMemGetInfo_v2(&after, &total));
  });
  EXPECT_OK(cuMemGetInfo_v2(&here_after, &total));
  EXPECT_GE(before - after, size_t{32} << 20);
  EXPECT_EQ(here, here_after);
  int ordinal = -1;
  CUcontext owner = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, there));
  EXPECT_EQ(ordinal, 1);
  EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, there));
  EXPECT_EQ(owner, other.get());
  EXPECT_OK(cuMemFree_v2(there));
}

// Each context of a device is enabled and disabled for itself.
TEST_F(PeerTest, ContextsOfOneDeviceAreApart) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  Other other(1);
  CUcontext primary = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 1));
  EXPECT_OK(cuCtxEnablePeerAccess(other.get(), 0));
  EXPECT_OK(cuCtxEnablePeerAccess(primary, 0));
  EXPECT_CU(cuCtxEnablePeerAccess(primary, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_OK(cuCtxDisablePeerAccess(primary));
  EXPECT_CU(cuCtxDisablePeerAccess(primary), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_OK(cuCtxEnablePeerAccess(primary, 0));
  EXPECT_OK(cuCtxDisablePeerAccess(other.get()));
  EXPECT_OK(cuCtxEnablePeerAccess(other.get(), 0));
  EXPECT_OK(cuCtxDisablePeerAccess(primary));
  EXPECT_OK(cuCtxDisablePeerAccess(other.get()));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(1));
}

// Work on two devices, ordered by events, on memory of the first.
TEST_F(PeerTest, EventsOrderTheWorkOfTwoDevices) {
  if (devices() < 2) GTEST_SKIP() << "one device";
  CUcontext primary = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&primary, 1));
  EXPECT_NE(primary, context_);
  const Words words(256);
  words.write(std::vector<uint32_t>(256, 1));
  Stream here;
  Event ready, done;
  CUstream there = nullptr;
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CUevent theirs = nullptr;
  ASSERT_OK(cuCtxPushCurrent_v2(primary));
  ASSERT_OK(cuCtxEnablePeerAccess(context_, 0));
  EXPECT_CU(cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  ASSERT_OK(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuEventCreate(&theirs, CU_EVENT_DISABLE_TIMING));
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&add, module, "add"));
  CUdevice device = -1;
  EXPECT_OK(cuStreamGetDevice(there, &device));
  EXPECT_EQ(device, 1);
  ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
  {
    Gate gate(function("gate"), here);
    CUdeviceptr address = words.at();
    uint32_t n = 256, value = 10;
    void* params[] = {&address, &n, &value};
    for (int round = 0; round < 20; ++round) {
      ASSERT_EQ(launch("add", here, words.at(), 256, 1), CUDA_SUCCESS);
      ASSERT_OK(cuEventRecord(ready, here));
      ASSERT_OK(cuCtxPushCurrent_v2(primary));
      ASSERT_OK(cuStreamWaitEvent(there, ready, 0));
      ASSERT_OK(cuLaunchKernel(add, 2, 1, 1, 128, 1, 1, 0, there, params, nullptr));
      ASSERT_OK(cuEventRecord(theirs, there));
      ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
      ASSERT_OK(cuStreamWaitEvent(here, theirs, 0));
    }
    gate.open();
  }
  ASSERT_OK(cuStreamSynchronize(here));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(256, 1 + 20 * 11));
  ASSERT_OK(cuCtxPushCurrent_v2(primary));
  EXPECT_OK(cuCtxDisablePeerAccess(context_));
  EXPECT_CU(cuCtxDisablePeerAccess(context_), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_OK(cuEventDestroy_v2(theirs));
  EXPECT_OK(cuStreamDestroy_v2(there));
  EXPECT_OK(cuModuleUnload(module));
  ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(1));
}

TEST_F(PeerTest, VisibleDevices) {
  if (devices() < 3) GTEST_SKIP() << "fewer than three devices";
  ::setenv("CUDA_VISIBLE_DEVICES", "2,0,9,1", 1);
  EXPECT_EQ(run_in_fresh_process("PeerChildTest.DISABLED_TwoInAnotherOrder"), 0);
  ::setenv("CUDA_VISIBLE_DEVICES", "1,1", 1);
  EXPECT_EQ(run_in_fresh_process("PeerChildTest.DISABLED_None"), 0);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(run_in_fresh_process("PeerChildTest.DISABLED_None"), 0);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(PeerChildTest, DISABLED_TwoInAnotherOrder) {
  int count = 0;
  ASSERT_OK(cuInit(0));
  EXPECT_OK(cuDeviceGetCount(&count));
  ASSERT_EQ(count, 2);
  CUuuid first = {}, second = {};
  EXPECT_OK(cuDeviceGetUuid_v2(&first, 0));
  EXPECT_OK(cuDeviceGetUuid_v2(&second, 1));
  EXPECT_EQ(first.bytes[15] - second.bytes[15], 2);
}

TEST(PeerChildTest, DISABLED_None) { EXPECT_CU(cuInit(0), CUDA_ERROR_NO_DEVICE); }

}  // namespace
}  // namespace vgpu::conformance
