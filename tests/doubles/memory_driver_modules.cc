// The memory double's modules and libraries: any image "loads", and has kernels without parameters
// that do nothing and one variable.
// SPDX-License-Identifier: Apache-2.0
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>

#include "tests/doubles/memory_driver.h"

namespace {

constexpr unsigned kKernels = 32;

struct FakeModule {
  int kernels[kKernels];  // their addresses are the handles
};

// Outlives every module: what a session believes to be a variable stays memory.
alignas(4096) char variable[4096];

FakeModule* module_of(const void* handle) {
  return static_cast<FakeModule*>(const_cast<void*>(handle));
}

CUresult list(const void* handle, void** out, unsigned count) {
  for (unsigned i = 0; i < count && i < kKernels; ++i) out[i] = &module_of(handle)->kernels[i];
  return CUDA_SUCCESS;
}

CUresult find_variable(CUdeviceptr* address, size_t* bytes) {
  *address = reinterpret_cast<CUdeviceptr>(variable);
  *bytes = sizeof variable;
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*, void**) {
  *module = reinterpret_cast<CUmodule>(new FakeModule());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleUnload(CUmodule module) {
  delete module_of(module);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule) {
  return *count = kKernels, CUDA_SUCCESS;
}
EXPORT CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned count, CUmodule module) {
  return list(module, reinterpret_cast<void**>(out), count);
}
EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule, const char*) {
  return find_variable(address, bytes);
}

EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                                  CUlibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(new FakeModule());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryUnload(CUlibrary library) {
  delete module_of(library);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary) {
  return *count = kKernels, CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned count, CUlibrary library) {
  return list(library, reinterpret_cast<void**>(out), count);
}
EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary, const char*) {
  return find_variable(address, bytes);
}
EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetName(const char** name, CUfunction) {
  return *name = "kernel", CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t*, size_t*) {
  return CUDA_ERROR_INVALID_VALUE;  // has none
}
EXPORT CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  return *value = 0, CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute, int) {
  return ++*reinterpret_cast<int*>(function), CUDA_SUCCESS;  // touched: a stale one is noticed
}
EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return ++*reinterpret_cast<int*>(function), CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, unsigned, CUstream, void**, void**) {
  return ++*reinterpret_cast<int*>(function), CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig*, CUfunction function, void**, void**) {
  return ++*reinterpret_cast<int*>(function), CUDA_SUCCESS;
}
