// Modules and functions: images good and bad, lookups, attributes.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <fstream>
#include <string>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

using ModuleTest = KernelTest;

TEST_F(ModuleTest, Lookups) {
  CUfunction found = nullptr;
  EXPECT_OK(cuModuleGetFunction(&found, module_, "fill"));
  EXPECT_CU(cuModuleGetFunction(&found, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_CU(cuModuleGetFunction(nullptr, module_, "fill"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuModuleGetFunction(&found, module_, nullptr), CUDA_ERROR_INVALID_VALUE);
  unsigned count = 0;
  EXPECT_OK(cuModuleGetFunctionCount(&count, module_));
  EXPECT_EQ(count, 6U);
  std::vector<CUfunction> all(count);
  EXPECT_OK(cuModuleEnumerateFunctions(all.data(), count, module_));
  for (CUfunction each : all) {
    const char* name = nullptr;
    EXPECT_OK(cuFuncGetName(&name, each));
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
  }
}

TEST_F(ModuleTest, Globals) {
  CUdeviceptr address = 0;
  size_t bytes = 0;
  uint32_t value = 0;
  ASSERT_OK(cuModuleGetGlobal_v2(&address, &bytes, module_, "counter"));
  EXPECT_EQ(bytes, 4U);
  EXPECT_OK(cuMemcpyDtoH_v2(&value, address, 4));
  EXPECT_EQ(value, 7U);
  value = 12;
  EXPECT_OK(cuMemcpyHtoD_v2(address, &value, 4));
  EXPECT_OK(cuModuleGetGlobal_v2(nullptr, &bytes, module_, "counter"));
  EXPECT_OK(cuModuleGetGlobal_v2(&address, nullptr, module_, "counter"));
  EXPECT_CU(cuModuleGetGlobal_v2(&address, &bytes, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
}

TEST_F(ModuleTest, EachLoadHasItsOwnGlobals) {
  CUmodule second = nullptr;
  ASSERT_OK(cuModuleLoadData(&second, kKernels));
  EXPECT_NE(second, module_);
  CUdeviceptr a = 0, b = 0;
  size_t bytes = 0;
  EXPECT_OK(cuModuleGetGlobal_v2(&a, &bytes, module_, "counter"));
  EXPECT_OK(cuModuleGetGlobal_v2(&b, &bytes, second, "counter"));
  EXPECT_NE(a, b);
  EXPECT_OK(cuModuleUnload(second));
  EXPECT_CU(cuModuleUnload(second), CUDA_ERROR_INVALID_HANDLE);
  CUfunction found = nullptr;
  EXPECT_CU(cuModuleGetFunction(&found, second, "fill"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuModuleUnload(nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuModuleUnload(garbage_handle<CUmodule>()), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, BadImages) {
  CUmodule module = nullptr;
  EXPECT_CU(cuModuleLoadData(nullptr, kKernels), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuModuleLoadData(&module,
                             ".version 7.0\n.target sm_70\n.address_size 64\n"
                             ".visible .entry k() { frobnicate.u32 %r0; }\n"),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(driver().cuModuleLoadData(&module, "not an image at all"),
              AnyOf(CUDA_ERROR_INVALID_IMAGE, CUDA_ERROR_INVALID_PTX));
}

TEST_F(ModuleTest, ErrorLog) {
  CUmodule module = nullptr;
  char log[1024] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(uintptr_t{sizeof(log)})};
  EXPECT_CU(cuModuleLoadDataEx(&module,
                               ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry k() { frobnicate.u32 %r0; }\n",
                               2, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(log[0], '\0');
  EXPECT_OK(cuModuleLoadDataEx(&module, kKernels, 2, options, values));
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(ModuleTest, FromFile) {
  const std::string path = temporary_path("module.ptx");
  std::ofstream(path) << kKernels;
  CUmodule module = nullptr;
  EXPECT_OK(cuModuleLoad(&module, path.c_str()));
  EXPECT_OK(cuModuleUnload(module));
  std::remove(path.c_str());
  EXPECT_CU(cuModuleLoad(&module, path.c_str()), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(ModuleTest, FunctionAttributes) {
  CUfunction fill = function("fill");
  int value = -1;
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, fill));
  EXPECT_GE(value, 32);
  EXPECT_LE(value, 1024);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fill));
  EXPECT_EQ(value, 0);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, fill));
  EXPECT_EQ(value, 70);
  EXPECT_CU(cuFuncGetAttribute(nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, fill),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuFuncGetAttribute(&value, static_cast<CUfunction_attribute>(5000), fill),
            CUDA_ERROR_INVALID_VALUE);
  CUmodule module = nullptr;
  EXPECT_OK(cuFuncGetModule(&module, fill));
  EXPECT_EQ(module, module_);
  EXPECT_OK(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fill));
  EXPECT_EQ(value, 1024);
  EXPECT_OK(cuFuncSetCacheConfig(fill, CU_FUNC_CACHE_PREFER_L1));
}

// Banks have had one size since compute capability 5: valid sizes are taken and mean nothing.
TEST_F(ModuleTest, SharedMemoryBanks) {
  EXPECT_OK(cuFuncSetSharedMemConfig(function("sum"), CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE));
  EXPECT_CU(cuFuncSetSharedMemConfig(function("sum"), static_cast<CUsharedconfig>(77)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuFuncSetSharedMemConfig(garbage_handle<CUfunction>(),
                                     CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE),
            CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, ParameterLayout) {
  CUfunction fill = function("fill");
  const size_t offsets[] = {0, 8, 12}, sizes[] = {8, 4, 4};
  for (size_t i = 0; i < 3; ++i) {
    size_t offset = 99, bytes = 99;
    EXPECT_OK(cuFuncGetParamInfo(fill, i, &offset, &bytes));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(bytes, sizes[i]);
  }
  size_t offset = 0;
  EXPECT_CU(cuFuncGetParamInfo(fill, 3, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ModuleTest, Loading) {
  CUmoduleLoadingMode mode = static_cast<CUmoduleLoadingMode>(0);
  EXPECT_OK(cuModuleGetLoadingMode(&mode));
  EXPECT_THAT(mode, AnyOf(CU_MODULE_EAGER_LOADING, CU_MODULE_LAZY_LOADING));
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_MAX;
  EXPECT_OK(cuFuncLoad(function("fill")));
  EXPECT_OK(cuFuncIsLoaded(&state, function("fill")));
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
}

}  // namespace
}  // namespace vgpu::conformance
