// Libraries: code that belongs to no single context.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "server/log.h"
#include "server/module.h"
#include "server/objects.h"

namespace vgpu::server {

namespace {

// Loads the image and lists its kernels. A failure may leave *library to be unloaded.
CUresult open_library(const DriverTable& driver, const LoadRequest& request, std::string* compiler,
                      CUlibrary* library, std::vector<CUkernel>* kernels) {
  if (driver.cuLibraryEnumerateKernels == nullptr || driver.cuLibraryGetKernelCount == nullptr) {
    log(Level::kError, "the driver cannot list a library's kernels: it is older than CUDA 12.4");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result = with_jit_options(
      request, compiler, [&](unsigned count, CUjit_option* options, void** values) {
        // The image stays as long as the library does (Module::request): no second copy of it.
        CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
        void* preserved_value[] = {reinterpret_cast<void*>(uintptr_t{1})};
        return driver.cuLibraryLoadData(library, request.image.data(), options, values, count,
                                        preserved, preserved_value, 1);
      });
  if (result != CUDA_SUCCESS) return result;
  unsigned count = 0;
  result = driver.cuLibraryGetKernelCount(&count, *library);
  if (result != CUDA_SUCCESS || count == 0) return result;
  kernels->resize(count);
  return driver.cuLibraryEnumerateKernels(kernels->data(), count, *library);
}

// Pages of managed variables are of no context, and the program keeps pointers to them.
bool shows_pages(const Module& library) {
  return std::any_of(library.globals.begin(), library.globals.end(),
                     [](const auto& each) { return each.second.context == nullptr; });
}

// The guest knows kernels by their place: the same image gives them in the same order.
CUresult check_order(const DriverTable& driver, const Module& module,
                     const std::vector<CUkernel>& kernels) {
  CUresult result = CUDA_SUCCESS;
  bool same = kernels.size() == module.kernels.size();
  for (size_t i = 0; same && i < kernels.size(); ++i) {
    CUfunction function = nullptr;
    const char* name = nullptr;
    result = driver.cuKernelGetFunction(&function, kernels[i]);
    if (result == CUDA_SUCCESS) result = driver.cuFuncGetName(&name, function);
    if (result != CUDA_SUCCESS) return result;
    same = module.kernels[i].name == name;
  }
  if (same) return CUDA_SUCCESS;
  log(Level::kError, "the driver lists a library's kernels in another order than before");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult load_library(const DriverTable& driver, LoadRequest* request, Module* module) {
  std::vector<CUkernel> kernels;
  CUresult result = open_library(driver, *request, &request->log, &module->library, &kernels);
  if (result != CUDA_SUCCESS) return result;
  module->kernels.resize(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    Kernel& kernel = module->kernels[i];
    kernel.kernel = kernels[i];
    kernel.context = module->context;
    result = driver.cuKernelGetFunction(&kernel.function, kernels[i]);
    if (result != CUDA_SUCCESS) return result;
    kernel.functions[module->context] = kernel.function;
  }
  return CUDA_SUCCESS;
}

CUlibrary library_in(const Module& module, const Context* context) {
  const auto renewed = module.renewed.find(context);
  return renewed == module.renewed.end() ? module.library : renewed->second->library;
}

CUkernel kernel_in(const Module& module, uint32_t index, const Context* context) {
  const auto renewed = module.renewed.find(context);
  return renewed == module.renewed.end() ? module.kernels[index].kernel
                                         : renewed->second->kernels[index];
}

void forget_uses(GuestMemory* memory, Module* module, const Context* context) {
  bool used = forget_globals(memory, module, context);
  module->charges.erase(context);
  std::erase_if(module->prepared,
                [context](const auto& each) { return each.first.first == context; });
  for (Kernel& kernel : module->kernels) {
    used |= kernel.functions.erase(context) != 0;
    if (kernel.context == context) kernel.context = nullptr;
  }
  if (used && context->primary) module->stale.insert(context);
}

CUresult renew_library(const DriverTable& driver, Module* module, const Context* context) {
  if (module->stale.erase(context) == 0 || shows_pages(*module)) return CUDA_SUCCESS;
  auto fresh = std::make_unique<RenewedLibrary>(&driver);
  std::string compiler;
  CUresult result =
      open_library(driver, *module->request, &compiler, &fresh->library, &fresh->kernels);
  if (result == CUDA_SUCCESS) result = check_order(driver, *module, fresh->kernels);
  if (result == CUDA_SUCCESS) module->renewed[context] = std::move(fresh);
  return result;
}

}  // namespace vgpu::server
