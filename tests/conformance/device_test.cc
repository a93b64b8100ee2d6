// Devices: count, names, attributes, identity.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDeviceGet(&device_, 0));
  }
  int attribute(CUdevice_attribute which) {
    int value = -1;
    EXPECT_OK(cuDeviceGetAttribute(&value, which, device_));
    return value;
  }
  CUdevice device_ = -1;
};

TEST_F(DeviceTest, Ordinals) {
  int count = 0;
  ASSERT_OK(cuDeviceGetCount(&count));
  EXPECT_GE(count, 1);
  CUdevice device = -1;
  EXPECT_CU(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuDeviceGet(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetCount(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, NameIsCutToTheBuffer) {
  char name[256] = {};
  ASSERT_OK(cuDeviceGetName(name, sizeof(name), device_));
  EXPECT_GT(std::strlen(name), 3U);
  char small[4] = {'x', 'x', 'x', 'x'};
  ASSERT_OK(cuDeviceGetName(small, sizeof(small), device_));
  EXPECT_EQ(std::string(small, 3), std::string(name, 3));
  EXPECT_EQ(small[3], '\0');
  EXPECT_CU(cuDeviceGetName(nullptr, 8, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetName(name, sizeof(name), 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, Attributes) {
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
  EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 48 * 1024);
  EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1);
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  EXPECT_GE(attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), 65535);
  int value = 0;
  EXPECT_CU(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(100000), device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, CapabilityAgreesWithAttributes) {
  int major = 0, minor = -1;
  ASSERT_OK(cuDeviceComputeCapability(&major, &minor, device_));
  EXPECT_EQ(major, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(minor, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

TEST_F(DeviceTest, OldPropertiesAgreeWithAttributes) {
  CUdevprop properties = {};
  ASSERT_OK(cuDeviceGetProperties(&properties, device_));
  EXPECT_EQ(properties.SIMDWidth, 32);
  EXPECT_EQ(properties.maxThreadsPerBlock, attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  EXPECT_CU(cuDeviceGetProperties(nullptr, device_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, TotalMemory) {
  size_t bytes = 0;
  ASSERT_OK(cuDeviceTotalMem_v2(&bytes, device_));
  EXPECT_GE(bytes, size_t{64} << 20);
  EXPECT_CU(cuDeviceTotalMem_v2(nullptr, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceTotalMem_v2(&bytes, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, IdentityIsStable) {
  CUuuid first = {}, second = {};
  const CUuuid zero = {};
  ASSERT_OK(cuDeviceGetUuid_v2(&first, device_));
  ASSERT_OK(cuDeviceGetUuid_v2(&second, device_));
  EXPECT_EQ(std::memcmp(&first, &second, sizeof(first)), 0);
  EXPECT_NE(std::memcmp(&first, &zero, sizeof(first)), 0);
}

TEST_F(DeviceTest, PciAddressLeadsBack) {
  char address[64] = {};
  ASSERT_OK(cuDeviceGetPCIBusId(address, sizeof(address), device_));
  CUdevice found = -1;
  ASSERT_OK(cuDeviceGetByPCIBusId(&found, address));
  EXPECT_EQ(found, device_);
  for (const char* wrong : {"", "nonsense", "ffff:ff:1f.7"}) {
    EXPECT_THAT(driver().cuDeviceGetByPCIBusId(&found, wrong),
                AnyOf(CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE))
        << wrong;
  }
  EXPECT_CU(cuDeviceGetByPCIBusId(nullptr, address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, NoPeerOfItself) {
  int can = -1;
  ASSERT_OK(cuDeviceCanAccessPeer(&can, device_, device_));
  EXPECT_EQ(can, 0);
  EXPECT_CU(cuDeviceCanAccessPeer(nullptr, device_, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceCanAccessPeer(&can, device_, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, NoPeerAttributesOfItself) {
  int value = -1;
  EXPECT_CU(
      cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device_, device_),
      CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device_, 99),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(
      cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, device_, device_),
      CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, LuidIsForWindows) {
  char luid[8] = {};
  unsigned mask = 0;
  EXPECT_CU(cuDeviceGetLuid(luid, &mask, device_), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_CU(cuDeviceGetLuid(luid, &mask, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, ExecAffinity) {
  int supported = -1;
  ASSERT_OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device_));
  EXPECT_THAT(supported, AnyOf(0, 1));
  EXPECT_CU(cuDeviceGetExecAffinitySupport(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_MAX, device_),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, LinearTextureWidth) {
  size_t width = 0;
  ASSERT_OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 1, device_));
  EXPECT_GT(width, 0U);
}

// The attribute of the whole link, and what it says of each operation.
TEST_F(DeviceTest, AtomicsOfTheHost) {
  int native = -1;
  ASSERT_OK(
      cuDeviceGetAttribute(&native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, device_));
  const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_CAS, CU_ATOMIC_OPERATION_FLOAT_ADD};
  const auto unknown = static_cast<CUatomicOperation>(CU_ATOMIC_OPERATION_MAX);
  unsigned capabilities[2] = {77, 77};
  EXPECT_CU(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 99),
            CUDA_ERROR_INVALID_DEVICE);
  if (native != 0) GTEST_SKIP() << "this device has native atomics on the host's memory";
  ASSERT_OK(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 2, device_));
  EXPECT_THAT(capabilities, ::testing::Each(0U));
  EXPECT_CU(cuDeviceGetHostAtomicCapabilities(nullptr, operations, 2, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetHostAtomicCapabilities(capabilities, nullptr, 2, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetHostAtomicCapabilities(capabilities, operations, 0, device_),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceGetHostAtomicCapabilities(capabilities, &unknown, 1, device_),
            CUDA_ERROR_INVALID_VALUE);
}

// A budget cannot be exceeded here, so all that can be seen is who is registered.
TEST_F(DeviceTest, AsyncNotifications) {
  const CUasyncCallback function = [](CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) {};
  CUasyncCallbackHandle first = nullptr, second = nullptr;
  ASSERT_OK(cuDeviceRegisterAsyncNotification(device_, function, nullptr, &first));
  ASSERT_OK(cuDeviceRegisterAsyncNotification(device_, function, &first, &second));
  EXPECT_NE(first, second);
  EXPECT_CU(cuDeviceRegisterAsyncNotification(device_, nullptr, nullptr, &second),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceRegisterAsyncNotification(device_, function, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceRegisterAsyncNotification(99, function, nullptr, &first),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuDeviceUnregisterAsyncNotification(99, first), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_OK(cuDeviceUnregisterAsyncNotification(device_, first));
  EXPECT_CU(cuDeviceUnregisterAsyncNotification(device_, first), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuDeviceUnregisterAsyncNotification(device_, second));
  EXPECT_CU(cuDeviceUnregisterAsyncNotification(device_, garbage_handle<CUasyncCallbackHandle>()),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vgpu::conformance
