// Limits and preferences of the current context.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::enter;

// Largest value that cuCtxSetLimit takes; larger ones are refused as native does for want of
// memory.
constexpr size_t kLimitBytesMax = 4ull << 30;
constexpr size_t kStackBytesMax = 512 << 10;

// Compared as a number: the enumeration has no value for what a caller may pass.
bool limit_known(CUlimit limit) { return static_cast<unsigned>(limit) < CU_LIMIT_MAX; }

bool limit_served(CUlimit limit) {
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
    case CU_LIMIT_PRINTF_FIFO_SIZE:
    case CU_LIMIT_MALLOC_HEAP_SIZE:
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (value == nullptr || !limit_known(limit)) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_CIG_ENABLED || limit == CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED) {
    *value = 0;  // a context without a graphics queue; libraries ask
    return CUDA_SUCCESS;
  }
  if (!limit_served(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = context->limits[limit].load();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (!limit_known(limit)) return CUDA_ERROR_INVALID_VALUE;
  if (!limit_served(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (limit == CU_LIMIT_STACK_SIZE && value > kStackBytesMax) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && value > 128) return CUDA_ERROR_INVALID_VALUE;
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE && value != 0) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  if (value > kLimitBytesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  context->limits[limit].store(value);
  context->output().set_limits(context->limits[CU_LIMIT_PRINTF_FIFO_SIZE],
                               context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUfunc_cache>(context->cache_config.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (config > CU_FUNC_CACHE_PREFER_EQUAL) return CUDA_ERROR_INVALID_VALUE;
  context->cache_config.store(config);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = static_cast<CUsharedconfig>(context->shared_config.load());
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;  // banks cannot be changed since compute capability 5: accepted without
                        // effect
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  if (least != nullptr) *least = softgpu::kPriorityLeast;
  if (greatest != nullptr) *greatest = softgpu::kPriorityGreatest;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  Context* context = nullptr;
  if (const CUresult result = enter(&context); result != CUDA_SUCCESS) return result;
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::driver
