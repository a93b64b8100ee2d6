// Libraries and kernels: modules that do not belong to one context.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/image_file.h"

namespace vgpu::driver {
namespace {

using softgpu::check_device;
using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::JitLog;
using softgpu::Kernel;
using softgpu::Library;
using softgpu::Module;

CUresult load(CUlibrary* out, const void* image, const JitLog& log) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<const softgpu::Program> program;
  if (const CUresult result = softgpu::parse_program(image, log, &program); result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Library> library = Library::make(std::move(program));
  library->handle = Driver::instance().libraries.insert(library);
  if (library->handle == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = library->handle;
  return CUDA_SUCCESS;
}

CUresult find_library(CUlibrary handle, std::shared_ptr<Library>* library) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  *library = Driver::instance().libraries.find(handle);
  return *library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult find_kernel(CUkernel handle, std::shared_ptr<Kernel>* kernel) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  *kernel = Driver::instance().kernels.find(handle);
  return *kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// The library's module in the current context.
CUresult current_module(CUlibrary handle, std::shared_ptr<Module>* module) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  std::shared_ptr<Library> library;
  if (const CUresult result = find_library(handle, &library); result != CUDA_SUCCESS) return result;
  return library->module_in(*context, module);
}

bool options_valid(unsigned jit_count, const void* jit, const void* jit_values, unsigned count,
                   const void* options) {
  if (jit_count > 0 && (jit == nullptr || jit_values == nullptr)) return false;
  return count == 0 || options != nullptr;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                           void**, unsigned int count) {
  if (!options_valid(jit_count, jit_options, jit_values, count, options))
    return CUDA_ERROR_INVALID_VALUE;
  return load(library, code, JitLog::from_options(jit_count, jit_options, jit_values));
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                               void**, unsigned int count) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (!options_valid(jit_count, jit_options, jit_values, count, options))
    return CUDA_ERROR_INVALID_VALUE;
  if (library == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> bytes;
  if (const CUresult result = softgpu::read_image_file(path, &bytes); result != CUDA_SUCCESS)
    return result;
  return load(library, bytes.data(), JitLog::from_options(jit_count, jit_options, jit_values));
}

CUresult cuLibraryUnload(CUlibrary handle) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  const std::shared_ptr<Library> library = Driver::instance().libraries.remove(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  library->unload();
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  std::shared_ptr<Library> library;
  if (const CUresult result = find_library(handle, &library); result != CUDA_SUCCESS) return result;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Kernel> kernel = library->kernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = kernel->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  if (const CUresult result = find_library(handle, &library); result != CUDA_SUCCESS) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->kernels().size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned int count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  if (const CUresult result = find_library(handle, &library); result != CUDA_SUCCESS) return result;
  if (out == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count && i < library->kernels().size(); ++i)
    out[i] = library->kernels()[i]->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = current_module(handle, &module); result != CUDA_SUCCESS)
    return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = module->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  std::shared_ptr<Module> module;
  if (const CUresult result = current_module(handle, &module); result != CUDA_SUCCESS)
    return result;
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  const auto [base, size] = module->variable(name);
  if (base == 0) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = base;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Library> library = kernel->library.lock();
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::shared_ptr<Module> module;
  if (const CUresult result = library->module_in(*context, &module); result != CUDA_SUCCESS)
    return result;
  *out = module->functions()[kernel->index]->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Library> library = kernel->library.lock();
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = library->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  std::shared_ptr<Kernel> kernel;
  const CUresult result = find_kernel(handle, &kernel);
  if (result == CUDA_ERROR_INVALID_HANDLE && handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->info->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  return softgpu::param_info(*kernel->info, index, offset, bytes);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::function_attribute(*kernel->info, *kernel->settings[static_cast<size_t>(device)],
                                     attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  return softgpu::set_function_attribute(
      *kernel->info, *kernel->settings[static_cast<size_t>(device)], attribute, value);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  std::shared_ptr<Kernel> kernel;
  if (const CUresult result = find_kernel(handle, &kernel); result != CUDA_SUCCESS) return result;
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                             : CUDA_SUCCESS;  // a preference only
}

}  // namespace vgpu::driver
