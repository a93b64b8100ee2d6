// Libraries and kernels, which belong to no context: cuLibrary*, cuKernel*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <mutex>

#include "driver_functions.h"
#include "shim/kernel_use.h"
#include "shim/module_table.h"

namespace vgpu::driver {

using shim::Context;
using shim::context_for;
using shim::enter;
using shim::find_function;
using shim::find_global;
using shim::Function;
using shim::function_handle;
using shim::handle_of;
using shim::id_of;
using shim::load_file;
using shim::load_image;
using shim::LoadOptions;
using shim::Module;
using shim::param_info;
using shim::read_options;
using shim::Session;
using shim::set_cache_config;
using shim::set_function_attribute;
using shim::unload;

namespace {

CUresult look_up(CUlibrary handle, Session** session, Module** library) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  *library = (*session)->libraries.find(id_of(handle));
  return *library == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult look_up(CUkernel handle, Session** session, Function** kernel) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  *kernel = (*session)->kernels.find(id_of(handle));
  return *kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

struct JitOptions {
  unsigned count;
  CUjit_option* names;
  void** values;
};

// `read` is load_image or load_file, `source` what it reads.
template <typename Source>
CUresult load(CUresult (*read)(Session&, Context*, Source, const LoadOptions&, uint64_t*),
              Source source, CUlibrary* out, const JitOptions& jit, CUlibraryOption* options,
              unsigned count) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || (jit.count != 0 && (jit.names == nullptr || jit.values == nullptr)) ||
      (count != 0 && options == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t id = 0;
  const CUresult result =
      read(*session, nullptr, source, read_options(jit.count, jit.names, jit.values), &id);
  if (result == CUDA_SUCCESS) *out = handle_of<CUlibrary>(id);
  return result;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit_options,
                           void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                           void**, unsigned int count) {
  return load(load_image, code, out, {jit_count, jit_options, jit_values}, options, count);
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned int jit_count, CUlibraryOption* options,
                               void**, unsigned int count) {
  return load(load_file, path, out, {jit_count, jit_options, jit_values}, options, count);
}

CUresult cuLibraryUnload(CUlibrary handle) {
  Session* session;
  Module* library;
  if (CUresult r = look_up(handle, &session, &library); r != CUDA_SUCCESS) return r;
  std::vector<uint64_t> aliases;
  {
    std::unique_lock lock(session->objects);
    session->modules.for_each([&](uint64_t id, Module& module) {
      if (module.library == id_of(handle)) aliases.push_back(id);
    });
    for (const uint64_t id : aliases) session->modules.remove(id);
  }
  unload(*session, library);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary handle, const char* name) {
  Session* session;
  Module* library;
  if (CUresult r = look_up(handle, &session, &library); r != CUDA_SUCCESS) return r;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto it = library->index.find(std::string_view(name));
  if (it == library->index.end()) return CUDA_ERROR_NOT_FOUND;
  *out = handle_of<CUkernel>(function_handle(*session, library, id_of(handle), it->second, true));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary handle) {
  Session* session;
  Module* library;
  if (CUresult r = look_up(handle, &session, &library); r != CUDA_SUCCESS) return r;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int count, CUlibrary handle) {
  Session* session;
  Module* library;
  if (CUresult r = look_up(handle, &session, &library); r != CUDA_SUCCESS) return r;
  if (kernels == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto total = std::min(count, static_cast<unsigned>(library->kernels.size()));
  for (unsigned i = 0; i < total; ++i) {
    kernels[i] = handle_of<CUkernel>(function_handle(*session, library, id_of(handle), i, true));
    if (kernels[i] == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Module* library = session->libraries.find(id_of(handle));
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(session->objects);
  uint64_t id = 0;
  session->modules.for_each([&](uint64_t known, Module& module) {
    if (module.library == id_of(handle) && module.context == context) id = known;
  });
  if (id == 0) {
    id = session->modules.insert();
    Module* module = session->modules.find(id);
    if (module == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    module->id = id;
    module->context = context;
    module->library = id_of(handle);
  }
  *out = handle_of<CUmodule>(id);
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Module* library = session->libraries.find(id_of(handle));
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return find_global(*session, context, library, name, address, bytes);
}

CUresult cuKernelGetFunction(CUfunction* out, CUkernel handle) {
  Session* session;
  Context* context;
  Function* kernel;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (CUresult r = look_up(handle, &session, &kernel); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Module* library = session->libraries.find(kernel->owner);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = handle_of<CUfunction>(
      function_handle(*session, library, kernel->owner, kernel->index, false));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel handle) {
  Session* session;
  Function* kernel;
  if (CUresult r = look_up(handle, &session, &kernel); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of<CUlibrary>(kernel->owner);
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  Session* session;
  Function* kernel;
  const CUresult result = look_up(handle, &session, &kernel);
  if (result == CUDA_ERROR_INVALID_HANDLE && handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  Session* session;
  Function* kernel;
  if (CUresult r = look_up(handle, &session, &kernel); r != CUDA_SUCCESS) return r;
  return param_info(*kernel, index, offset, bytes);
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel handle,
                              CUdevice device) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  Function* kernel = find_function(*session, reinterpret_cast<CUfunction>(handle));
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (session->device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  shim::Kernel* used = kernel->kernel;
  Context* context;
  if (kernel->home != nullptr && kernel->home->device != device) {
    if (CUresult r = context_for(*session, device, &context); r != CUDA_SUCCESS) return r;
    if (CUresult r = use_kernel(*session, context, *kernel, &used); r != CUDA_SUCCESS) return r;
  }
  *value = used->attribute(which);
  return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel handle,
                              CUdevice device) {
  Session* session;
  Function* kernel;
  if (CUresult r = look_up(handle, &session, &kernel); r != CUDA_SUCCESS) return r;
  Context* context;
  if (CUresult r = context_for(*session, device, &context); r != CUDA_SUCCESS) return r;
  return set_function_attribute(*session, context, kernel, which, value);
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
  Session* session;
  Function* kernel;
  if (CUresult r = look_up(handle, &session, &kernel); r != CUDA_SUCCESS) return r;
  Context* context;
  if (CUresult r = context_for(*session, device, &context); r != CUDA_SUCCESS) return r;
  return set_cache_config(*session, context, kernel, config);
}

}  // namespace vgpu::driver
