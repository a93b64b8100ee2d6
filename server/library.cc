// Libraries: code that belongs to no single context.
// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"
#include "server/module.h"

namespace vgpu::server {

CUresult load_library(const DriverTable& driver, LoadRequest* request, Module* module) {
  if (driver.cuLibraryEnumerateKernels == nullptr || driver.cuLibraryGetKernelCount == nullptr) {
    log(Level::kError, "the driver cannot list a library's kernels: it is older than CUDA 12.4");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  struct Self {
    const DriverTable& driver;
    LoadRequest* request;
    Module* module;
  } self{driver, request, module};
  CUresult result = with_jit_options(
      request,
      [](void* opaque, unsigned count, CUjit_option* options, void** values) {
        auto* s = static_cast<Self*>(opaque);
        return s->driver.cuLibraryLoadData(&s->module->library, s->request->image.data(), options,
                                           values, count, nullptr, nullptr, 0);
      },
      &self);
  if (result != CUDA_SUCCESS) return result;
  unsigned count = 0;
  result = driver.cuLibraryGetKernelCount(&count, module->library);
  if (result != CUDA_SUCCESS || count == 0) return result;
  std::vector<CUkernel> kernels(count);
  result = driver.cuLibraryEnumerateKernels(kernels.data(), count, module->library);
  if (result != CUDA_SUCCESS) return result;
  module->kernels.resize(count);
  for (unsigned i = 0; i < count; ++i) {
    Kernel& kernel = module->kernels[i];
    kernel.kernel = kernels[i];
    kernel.context = module->context;
    result = driver.cuKernelGetFunction(&kernel.function, kernels[i]);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace vgpu::server
