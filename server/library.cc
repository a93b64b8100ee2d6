// Libraries: code that belongs to no single context.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "server/log.h"
#include "server/module.h"

namespace vgpu::server {

CUresult load_library(const DriverTable& driver, LoadRequest* request, Module* module) {
  if (driver.cuLibraryEnumerateKernels == nullptr || driver.cuLibraryGetKernelCount == nullptr) {
    log(Level::kError, "the driver cannot list a library's kernels: it is older than CUDA 12.4");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  CUresult result =
      with_jit_options(request, [&](unsigned count, CUjit_option* options, void** values) {
        // The image stays as long as the library does (Module::request): no second copy of it.
        CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
        void* preserved_value[] = {reinterpret_cast<void*>(uintptr_t{1})};
        return driver.cuLibraryLoadData(&module->library, request->image.data(), options, values,
                                        count, preserved, preserved_value, 1);
      });
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

CUresult renew_library(const DriverTable& driver, Module* module) {
  Module fresh;
  fresh.context = module->context;
  CUresult result = load_library(driver, module->request.get(), &fresh);
  for (size_t i = 0; i < fresh.kernels.size() && result == CUDA_SUCCESS; ++i) {
    std::vector<int32_t> attributes;
    result = describe_kernel(driver, &fresh.kernels[i], &attributes);
  }
  // The guest knows kernels by their place: the same image gives them in the same order.
  const auto same_name = [](const Kernel& a, const Kernel& b) { return a.name == b.name; };
  if (result == CUDA_SUCCESS && !std::ranges::equal(fresh.kernels, module->kernels, same_name)) {
    log(Level::kError, "the driver lists a library's kernels in another order than before");
    result = CUDA_ERROR_NOT_SUPPORTED;
  }
  if (result == CUDA_SUCCESS) {
    std::swap(module->library, fresh.library);
    std::swap(module->kernels, fresh.kernels);
    ++module->life;
  }
  if (fresh.library != nullptr) (void)driver.cuLibraryUnload(fresh.library);
  return result;
}

}  // namespace vgpu::server
