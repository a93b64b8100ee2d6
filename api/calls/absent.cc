// What is asked about features that no device here has: the answers are those of such a device.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/backend.h"
#include "driver_functions.h"

namespace vgpu::driver {

// cuDeviceGetExecAffinitySupport says that there is none.
CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  if (affinity == nullptr || static_cast<unsigned>(type) >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

// CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0.
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* symbol) {
  unsigned kernels = 0;  // asked for the check of the handle
  const CUresult r = driver::cuLibraryGetKernelCount(&kernels, library);
  if (r != CUDA_SUCCESS) return r;
  return function == nullptr || symbol == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

// Green contexts cannot be made, so no stream belongs to one.
CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* green) {
  CUcontext context = nullptr;
  const CUresult r = driver::cuStreamGetCtx(stream, &context);
  if (r != CUDA_SUCCESS) return r;
  if (green == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *green = nullptr;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
