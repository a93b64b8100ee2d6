// Contexts with some of the SMs.
// SPDX-License-Identifier: Apache-2.0
#include "api/green/affinity.h"

#include <cudaProfiler.h>

#include <algorithm>

#include "api/graph/backend.h"
#include "api/green/backend.h"
#include "driver_functions.h"

namespace vgpu::green {

CUresult read_affinity(const CUexecAffinityParam* params, int count, unsigned* sms) {
  *sms = 0;
  if (count < 0 || (count > 0 && params == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < count; ++i) {
    if (params[i].type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
      return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    *sms = std::max(params[i].param.smCount.val, 1u);  // rounded up to what there is
  }
  return CUDA_SUCCESS;
}

CUresult read_affinity(const CUctxCreateParams* params, unsigned* sms) {
  *sms = 0;
  if (params == nullptr) return CUDA_SUCCESS;
  if (params->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;  // another API's queues
  return read_affinity(params->execAffinityParams, params->numExecAffinityParams, sms);
}

}  // namespace vgpu::green

namespace vgpu::driver {

CUresult cuCtxGetExecAffinity(CUexecAffinityParam* affinity, CUexecAffinityType type) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  if (affinity == nullptr || static_cast<unsigned>(type) >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned sms = 0;
  if (const CUresult r = green::sm_affinity(current, &sms); r != CUDA_SUCCESS) return r;
  affinity->type = type;
  affinity->param.smCount.val = sms;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
