// Code that cannot be described is not left behind in the driver.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "driver_recorder.h"
#include "server/guest_memory.h"
#include "server/module.h"
#include "server/objects.h"

namespace vgpu::server {
namespace {

class LoadCode : public testing::Test {
 protected:
  void SetUp() override {
    DriverRecorder::instance().calls.clear();
    DriverRecorder::instance().result.clear();
    driver_ = recording_table();
    driver_.cuModuleLoadDataEx = [](CUmodule* module, const void*, unsigned, CUjit_option*,
                                    void**) {
      *module = reinterpret_cast<CUmodule>(uintptr_t{16});
      return CUDA_SUCCESS;
    };
    driver_.cuLibraryLoadData = [](CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                                   CUlibraryOption*, void**, unsigned) {
      *library = reinterpret_cast<CUlibrary>(uintptr_t{16});
      return CUDA_SUCCESS;
    };
    module_.context = &context_;
    memory_.add(std::make_unique<DeviceMemory>(
        &driver_, 0, kQuota, protocol::AllocatorMode::kForward, protocol::AddressRange{}));
  }
  void give_code(uint64_t variable_bytes) {
    const std::string text = ".version 8.0\n.target sm_52\n.address_size 64\n.global .b8 room[" +
                             std::to_string(variable_bytes) + "];\n";
    ASSERT_TRUE(request_.image.make(text.size()));
    std::memcpy(request_.image.data(), text.data(), text.size());
  }
  void TearDown() override { DriverRecorder::instance().result.clear(); }

  static constexpr uint64_t kQuota = 4096;
  DriverTable driver_;
  GuestMemory memory_;
  Context context_{FlowLimits(64)};
  LoadRequest request_;
  Module module_;
};

TEST_F(LoadCode, AModuleThatCannotBeListedIsUnloaded) {
  DriverRecorder::instance().result["cuModuleGetFunctionCount"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(load_code(driver_, &memory_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(DriverRecorder::instance().calls["cuModuleUnload"], 1);
  EXPECT_EQ(module_.module, nullptr);
}

TEST_F(LoadCode, ALibraryThatCannotBeListedIsUnloaded) {
  request_.library = true;
  DriverRecorder::instance().result["cuLibraryGetKernelCount"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(load_code(driver_, &memory_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(DriverRecorder::instance().calls["cuLibraryUnload"], 1);
  EXPECT_EQ(module_.library, nullptr);
}

TEST_F(LoadCode, VariablesAreChargedBeforeTheDriverMakesThem) {
  give_code(kQuota + 1);
  EXPECT_EQ(load_code(driver_, &memory_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(module_.module, nullptr);
  EXPECT_EQ(module_.variable_bytes, kQuota + 1);
  EXPECT_EQ(memory_.on(0)->quota().used(), 0U);
  give_code(kQuota);
  EXPECT_EQ(load_code(driver_, &memory_, &request_, &module_), CUDA_SUCCESS);
  EXPECT_EQ(memory_.on(0)->quota().used(), kQuota);
  module_.charges.clear();
  EXPECT_TRUE(memory_.on(0)->charge(kQuota));
}

TEST_F(LoadCode, WhatIsNotLoadedTakesNothing) {
  DriverRecorder::instance().result["cuModuleGetFunctionCount"] = CUDA_ERROR_OUT_OF_MEMORY;
  give_code(kQuota);
  EXPECT_EQ(load_code(driver_, &memory_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_TRUE(memory_.on(0)->charge(kQuota));
}

}  // namespace
}  // namespace vgpu::server
