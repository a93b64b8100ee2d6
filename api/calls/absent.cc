// What is asked about features that no device here has: the answers are those of such a device.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"

namespace vgpu::driver {

// CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0.
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* symbol) {
  unsigned kernels = 0;  // asked for the check of the handle
  const CUresult r = driver::cuLibraryGetKernelCount(&kernels, library);
  if (r != CUDA_SUCCESS) return r;
  return function == nullptr || symbol == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

}  // namespace vgpu::driver
