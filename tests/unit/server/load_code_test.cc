// Code that cannot be described is not left behind in the driver.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "driver_recorder.h"
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
  }
  void TearDown() override { DriverRecorder::instance().result.clear(); }

  DriverTable driver_;
  Context context_{FlowLimits(64)};
  LoadRequest request_;
  Module module_;
};

TEST_F(LoadCode, AModuleThatCannotBeListedIsUnloaded) {
  DriverRecorder::instance().result["cuModuleGetFunctionCount"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(load_code(driver_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(DriverRecorder::instance().calls["cuModuleUnload"], 1);
  EXPECT_EQ(module_.module, nullptr);
}

TEST_F(LoadCode, ALibraryThatCannotBeListedIsUnloaded) {
  request_.library = true;
  DriverRecorder::instance().result["cuLibraryGetKernelCount"] = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(load_code(driver_, &request_, &module_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(DriverRecorder::instance().calls["cuLibraryUnload"], 1);
  EXPECT_EQ(module_.library, nullptr);
}

}  // namespace
}  // namespace vgpu::server
