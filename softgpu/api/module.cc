// Modules and functions.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "base/log.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/image_file.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;
using softgpu::Function;
using softgpu::JitLog;
using softgpu::Module;

CUresult load(CUmodule* out, const void* image, const JitLog& log) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  context->output().flush();
  std::shared_ptr<const softgpu::Program> program;
  if (const CUresult result = softgpu::parse_program(image, log, &program); result != CUDA_SUCCESS)
    return result;
  std::shared_ptr<Module> module;
  std::string reason;
  const CUresult loaded = Module::load(context, std::move(program), nullptr, &module, &reason);
  if (loaded != CUDA_SUCCESS) {
    VGPU_LOG_ERROR("module: %s", reason.c_str());
    log.write(reason);
    return loaded;
  }
  module->handle = Driver::instance().modules.insert(module);
  context->add_module(module);
  *out = module->handle;
  return CUDA_SUCCESS;
}

CUresult find_module(CUmodule handle, std::shared_ptr<Module>* module) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *module = Driver::instance().modules.find(handle);
  return *module == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult look_up(CUfunction handle, std::shared_ptr<Function>* function) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  *function = softgpu::find_function(*context, handle);
  return *function == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load(module, image, JitLog());
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int count,
                            CUjit_option* options, void** values) {
  if (count > 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return load(module, image, JitLog::from_options(count, options, values));
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return load(module, image, JitLog());
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (module == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> bytes;
  if (const CUresult result = softgpu::read_image_file(path, &bytes); result != CUDA_SUCCESS)
    return result;
  return load(module, bytes.data(), JitLog());
}

CUresult cuModuleUnload(CUmodule handle) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter_ignoring_errors(&context); result != CUDA_SUCCESS)
    return result;
  const std::shared_ptr<Module> module = Driver::instance().modules.find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (module->of_library) return CUDA_ERROR_NOT_PERMITTED;
  module->unload();
  module->context()->output().flush();
  module->context()->drop_module(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (const CUresult ready = Driver::instance().ready(); ready != CUDA_SUCCESS) return ready;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
  std::shared_ptr<Module> module;
  if (const CUresult result = find_module(handle, &module); result != CUDA_SUCCESS) return result;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Function> function = module->function(name);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  *out = function->handle;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = find_module(handle, &module); result != CUDA_SUCCESS) return result;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->functions().size());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned int count, CUmodule handle) {
  std::shared_ptr<Module> module;
  if (const CUresult result = find_module(handle, &module); result != CUDA_SUCCESS) return result;
  if (out == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count && i < module->functions().size(); ++i)
    out[i] = module->functions()[i]->handle;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  std::shared_ptr<Module> module;
  if (const CUresult result = find_module(handle, &module); result != CUDA_SUCCESS) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto [base, size] = module->variable(name);
  if (base == 0) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = base;
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return softgpu::function_attribute(*function->info, *function->settings, attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  return softgpu::set_function_attribute(*function->info, *function->settings, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  return config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                             : CUDA_SUCCESS;  // a preference only
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  return config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                            : CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Module> module = function->module.lock();
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = module->handle;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  std::shared_ptr<Function> function;
  const CUresult result = look_up(handle, &function);
  if (result == CUDA_ERROR_INVALID_HANDLE && handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (result != CUDA_SUCCESS) return result;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->info->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  return softgpu::param_info(*function->info, index, offset, bytes);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  std::shared_ptr<Function> function;
  if (const CUresult result = look_up(handle, &function); result != CUDA_SUCCESS) return result;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  std::shared_ptr<Function> function;
  return look_up(handle, &function);
}

}  // namespace vgpu::driver
