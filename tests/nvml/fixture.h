// A server, and the guest's libraries loaded as programs load them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_NVML_FIXTURE_H_
#define VGPU_TESTS_NVML_FIXTURE_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nvml.h>

#include <cstdlib>
#include <string>

#include "tests/lifecycle/server_process.h"

namespace vgpu::testing {

// A function of the guest's NVML, by its exported name.
#define NVML(name) (reinterpret_cast<decltype(&::name)>(NvmlTest::symbol(#name)))

class NvmlTest : public ::testing::Test {
 public:
  static void* symbol(const char* name) {
    static void* const library = ::dlopen(GUEST_NVML, RTLD_NOW);
    void* found = library == nullptr ? nullptr : ::dlsym(library, name);
    EXPECT_NE(found, nullptr) << name;
    return found;
  }

 protected:
  void SetUp() override {
    server_.start();
    ::setenv("VGPU_SERVER", server_.address().to_string().c_str(), 1);
    ::setenv("VGPU_MEM", "512M", 1);
    ::unsetenv("VGPU_NAME");
    ASSERT_EQ(NVML(nvmlInit_v2)(), NVML_SUCCESS);
    ASSERT_EQ(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device_), NVML_SUCCESS);
  }
  void TearDown() override {
    while (NVML(nvmlShutdown)() == NVML_SUCCESS) {
    }
  }

  ServerProcess server_{{}, SOFTGPU};
  nvmlDevice_t device_ = nullptr;
};

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_NVML_FIXTURE_H_
