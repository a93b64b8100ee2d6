// By the functions that programs have for it.
// SPDX-License-Identifier: Apache-2.0
#include "api/calls/kernels.h"

#include <cudaProfiler.h>

#include <vector>

#include "driver_functions.h"

namespace vgpu::calls {

uint64_t each_kernel(CUmodule module, void (*visit)(void*, CUfunction, uint64_t), void* user) {
  unsigned count = 0;
  if (driver::cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS) return 0;
  std::vector<CUfunction> functions(count);
  if (driver::cuModuleEnumerateFunctions(functions.data(), count, module) != CUDA_SUCCESS) return 0;
  for (CUfunction function : functions) visit(user, function, 0);
  return count;
}

}  // namespace vgpu::calls
