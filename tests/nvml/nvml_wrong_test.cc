// What NVML answers to wrong arguments, to structures of other versions, and to what is not served.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "tests/nvml/fixture.h"

namespace vgpu::testing {
namespace {

TEST_F(NvmlTest, NullPointersAndForeignHandles) {
  unsigned int number = 0;
  char text[96];
  nvmlDevice_t none = nullptr;
  auto* foreign = reinterpret_cast<nvmlDevice_t>(text);
  EXPECT_EQ(NVML(nvmlDeviceGetCount_v2)(nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetIndex)(device_, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetIndex)(none, &number), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetIndex)(foreign, &number), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetName)(device_, nullptr, 5), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo)(device_, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetUtilizationRates)(foreign, nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlSystemGetCudaDriverVersion_v2)(nullptr), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetFieldValues)(device_, 0, nullptr), NVML_ERROR_INVALID_ARGUMENT);
}

TEST_F(NvmlTest, DevicesThatAreNotThere) {
  nvmlDevice_t device = nullptr;
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(1, &device), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByUUID)("GPU-0", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0000:77:00.0", &device), NVML_ERROR_NOT_FOUND);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("here", &device), NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("01:00.0x", &device),
            NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("01:00.0", &device), NVML_SUCCESS);
  EXPECT_EQ(device, device_);
  EXPECT_EQ(NVML(nvmlDeviceGetHandleByPciBusId_v2)("0:1:0", &device), NVML_SUCCESS);
}

TEST_F(NvmlTest, TextsThatDoNotFit) {
  char text[96];
  std::memset(text, 'x', sizeof(text));
  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(device_, text, 40), NVML_ERROR_INSUFFICIENT_SIZE);
  EXPECT_EQ(text[0], 'x');
  EXPECT_EQ(NVML(nvmlDeviceGetUUID)(device_, text, 41), NVML_SUCCESS);
  EXPECT_EQ(text[40], '\0');
  EXPECT_EQ(text[41], 'x');
  EXPECT_EQ(NVML(nvmlSystemGetDriverVersion)(text, 1), NVML_ERROR_INSUFFICIENT_SIZE);
  const auto self = static_cast<unsigned int>(::getpid());
  EXPECT_EQ(NVML(nvmlSystemGetProcessName)(self, text, 4), NVML_SUCCESS);  // cut
  EXPECT_EQ(std::strlen(text), 3u);
  EXPECT_EQ(NVML(nvmlSystemGetProcessName)(0, text, 4), NVML_ERROR_NOT_FOUND);
}

TEST_F(NvmlTest, StructuresOfOtherVersions) {
  nvmlMemory_v2_t memory{};
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(device_, &memory),
            NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  memory.version = nvmlMemory_v2;
  EXPECT_EQ(NVML(nvmlDeviceGetMemoryInfo_v2)(device_, &memory), NVML_SUCCESS);
  EXPECT_EQ(memory.total, memory.free + memory.used + memory.reserved);
  nvmlProcessDetailList_t list{};
  EXPECT_EQ(NVML(nvmlDeviceGetRunningProcessDetailList)(device_, &list),
            NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  nvmlPciInfoExt_t pci{};
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfoExt)(device_, &pci), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

// Programs of older NVML give shorter structures.
TEST_F(NvmlTest, OldPciInfoIsNotOverrun) {
  constexpr size_t kFirst = offsetof(nvmlPciInfo_t, pciSubSystemId);
  constexpr size_t kSecond = offsetof(nvmlPciInfo_t, busId);
  nvmlPciInfo_t info, untouched;
  std::memset(&untouched, 0x5a, sizeof(untouched));
  const auto behind = [&](size_t offset) {
    return std::memcmp(reinterpret_cast<const char*>(&info) + offset,
                       reinterpret_cast<const char*>(&untouched) + offset, sizeof(info) - offset);
  };
  info = untouched;
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo)(device_, &info), NVML_SUCCESS);
  EXPECT_STREQ(info.busIdLegacy, "0000:01:00.0");
  EXPECT_EQ(behind(kFirst), 0);
  info = untouched;
  EXPECT_EQ(NVML(nvmlDeviceGetPciInfo_v2)(device_, &info), NVML_SUCCESS);
  EXPECT_EQ(info.bus, 1u);
  EXPECT_EQ(behind(kSecond), 0);
}

TEST_F(NvmlTest, WhatIsNotServed) {
  unsigned int number = 7;
  EXPECT_EQ(NVML(nvmlDeviceGetTemperature)(device_, NVML_TEMPERATURE_GPU, &number),
            NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceGetFanSpeed)(device_, &number), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(NVML(nvmlDeviceSetPersistenceMode)(device_, NVML_FEATURE_DISABLED),
            NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(number, 7u);
  nvmlFieldValue_t fields[2] = {};
  EXPECT_EQ(NVML(nvmlDeviceGetFieldValues)(device_, 2, fields), NVML_SUCCESS);
  EXPECT_EQ(fields[1].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
  // What nvidia-smi asks for: success with an empty table would make it crash.
  using Private = nvmlReturn_t (*)(const void**, const void*);
  const void* table = nullptr;
  const auto get = reinterpret_cast<Private>(symbol("nvmlInternalGetExportTable"));
  EXPECT_EQ(get(&table, "0123456789abcdef"), NVML_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(table, nullptr);
}

TEST_F(NvmlTest, SettingsOfAVgpu) {
  nvmlComputeMode_t mode;
  nvmlEnableState_t state, pending;
  unsigned int number = 1;
  EXPECT_EQ(NVML(nvmlDeviceGetComputeMode)(device_, &mode), NVML_SUCCESS);
  EXPECT_EQ(mode, NVML_COMPUTEMODE_DEFAULT);
  EXPECT_EQ(NVML(nvmlDeviceGetEccMode)(device_, &state, &pending), NVML_SUCCESS);
  EXPECT_EQ(state, pending);
  EXPECT_EQ(NVML(nvmlDeviceIsMigDeviceHandle)(device_, &number), NVML_SUCCESS);
  EXPECT_EQ(number, 0u);
  nvmlDeviceArchitecture_t architecture;
  int major = 0, minor = 0;
  EXPECT_EQ(NVML(nvmlDeviceGetCudaComputeCapability)(device_, &major, &minor), NVML_SUCCESS);
  EXPECT_EQ(NVML(nvmlDeviceGetArchitecture)(device_, &architecture), NVML_SUCCESS);
  if (major == 8 && minor == 0) {
    EXPECT_EQ(architecture, static_cast<unsigned>(NVML_DEVICE_ARCH_AMPERE));
  }
  EXPECT_EQ(NVML(nvmlDeviceGetMaxClockInfo)(device_, NVML_CLOCK_COUNT, &number),
            NVML_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(NVML(nvmlDeviceGetMaxClockInfo)(device_, NVML_CLOCK_VIDEO, &number),
            NVML_ERROR_NOT_SUPPORTED);
}

TEST_F(NvmlTest, ErrorsHaveTheirTexts) {
  EXPECT_STREQ(NVML(nvmlErrorString)(NVML_SUCCESS), "Success");
  EXPECT_STREQ(NVML(nvmlErrorString)(NVML_ERROR_DRIVER_NOT_LOADED), "Driver Not Loaded");
  EXPECT_STREQ(NVML(nvmlErrorString)(static_cast<nvmlReturn_t>(777)), "Unknown Error");
}

}  // namespace
}  // namespace vgpu::testing
