// Names and texts of results.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include "api/cudart/error_text.h"
#include "driver_functions.h"

namespace vgpu::driver {

CUresult cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudart::ErrorText* const found = cudart::find_error(error);
  *text = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const cudart::ErrorText* const found = cudart::find_error(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace vgpu::driver
