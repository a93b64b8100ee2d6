// Modules and functions: cuModule*, cuFunc*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "driver_functions.h"
#include "shim/kernel_use.h"
#include "shim/module_table.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_function;
using shim::find_global;
using shim::find_module;
using shim::Function;
using shim::function_handle;
using shim::handle_of;
using shim::id_of;
using shim::load_file;
using shim::load_image;
using shim::LoadOptions;
using shim::Module;
using shim::param_info;
using shim::Process;
using shim::read_options;
using shim::Session;
using shim::set_cache_config;
using shim::set_function_attribute;
using shim::unload;

namespace {

CUresult load(CUmodule* out, const void* image, const LoadOptions& options) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = 0;
  const CUresult result = load_image(*session, context, image, options, &id);
  if (result == CUDA_SUCCESS) *out = handle_of<CUmodule>(id);
  return result;
}

CUresult look_up(CUmodule handle, Session** session, Context** context, Module** module) {
  if (CUresult r = enter(session, context); r != CUDA_SUCCESS) return r;
  *module = find_module(**session, handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult look_up(CUfunction handle, Session** session, Context** context, Function** function) {
  if (CUresult r = enter(session, context); r != CUDA_SUCCESS) return r;
  *function = find_function(**session, handle);
  return *function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return load(out, image, LoadOptions());
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) {
  return load(out, image, LoadOptions());
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return load(out, image, read_options(count, options, values));
}

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t id = 0;
  const CUresult result = load_file(*session, context, path, LoadOptions(), &id);
  if (result == CUDA_SUCCESS) *out = handle_of<CUmodule>(id);
  return result;
}

CUresult cuModuleUnload(CUmodule handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Module* module = session->modules.find(id_of(handle));
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->library != 0) return CUDA_ERROR_NOT_PERMITTED;  // it ends with its library
  unload(*session, module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (Process::session() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const char* set = std::getenv("CUDA_MODULE_LOADING");
  *mode = set != nullptr && std::strcmp(set, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING
                                                           : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  Session* session;
  Context* context;
  Module* module;
  if (CUresult r = look_up(handle, &session, &context, &module); r != CUDA_SUCCESS) return r;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto it = module->index.find(std::string_view(name));
  if (it == module->index.end()) return CUDA_ERROR_NOT_FOUND;
  *out = handle_of<CUfunction>(function_handle(*session, module, id_of(handle), it->second, false));
  return *out != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  Session* session;
  Context* context;
  Module* module;
  if (CUresult r = look_up(handle, &session, &context, &module); r != CUDA_SUCCESS) return r;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->kernels.size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int count, CUmodule handle) {
  Session* session;
  Context* context;
  Module* module;
  if (CUresult r = look_up(handle, &session, &context, &module); r != CUDA_SUCCESS) return r;
  if (functions == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto total = std::min(count, static_cast<unsigned>(module->kernels.size()));
  for (unsigned i = 0; i < total; ++i) {
    functions[i] =
        handle_of<CUfunction>(function_handle(*session, module, id_of(handle), i, false));
    if (functions[i] == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  Session* session;
  Context* context;
  Module* module;
  if (CUresult r = look_up(handle, &session, &context, &module); r != CUDA_SUCCESS) return r;
  return find_global(*session, context, module, name, address, bytes);
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction handle) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  if (value == nullptr || which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  shim::Kernel* kernel = nullptr;
  if (CUresult r = use_kernel(*session, context, *function, &kernel); r != CUDA_SUCCESS) return r;
  *value = kernel->attribute(which);
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute which, int value) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  return set_function_attribute(*session, context, function, which, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  return set_cache_config(*session, context, function, config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  // Bank sizes were fixed before the oldest device that is served: valid values are accepted and
  // mean nothing.
  const bool valid = config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                     config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (session->modules.find(function->owner) != nullptr) {
    *out = handle_of<CUmodule>(function->owner);
    return CUDA_SUCCESS;
  }
  return driver::cuLibraryGetModule(out, handle_of<CUlibrary>(function->owner));
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  Session* session;
  Context* context;
  Function* function;
  const CUresult result = look_up(handle, &session, &context, &function);
  if (result == CUDA_ERROR_INVALID_HANDLE && handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  return param_info(*function, index, offset, bytes);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  Session* session;
  Context* context;
  Function* function;
  if (CUresult r = look_up(handle, &session, &context, &function); r != CUDA_SUCCESS) return r;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  Session* session;
  Context* context;
  Function* function;
  return look_up(handle, &session, &context, &function);
}

}  // namespace vgpu::driver
