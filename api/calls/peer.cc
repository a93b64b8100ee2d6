// Copies between contexts: the contexts are checked, and the addresses say the rest.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <utility>

#include "api/calls/hooks.h"
#include "api/geometry/peer.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

CUresult check_both(CUcontext to, CUcontext from) {
  const CUresult result = calls::check_context(to);
  return result != CUDA_SUCCESS ? result : calls::check_context(from);
}

// Arrays know their context themselves.
CUresult check_ends(const CUDA_MEMCPY3D_PEER* copy) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [type, context] : {std::pair(copy->srcMemoryType, copy->srcContext),
                                      std::pair(copy->dstMemoryType, copy->dstContext)}) {
    if (type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST) continue;
    if (const CUresult r = calls::check_context(context); r != CUDA_SUCCESS) return r;
  }
  return CUDA_SUCCESS;
}

// Copies that the host waits for come behind all work of both contexts.
CUresult finish_others(CUcontext to, CUcontext from) {
  CUcontext current = nullptr;
  if (const CUresult r = driver::cuCtxGetCurrent(&current); r != CUDA_SUCCESS) return r;
  for (const CUcontext each : {to, from}) {
    if (each == current || each == nullptr) continue;
    const CUresult result = driver::cuCtxSynchronize_v2(each);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult finish_ends(const CUDA_MEMCPY3D_PEER& copy) {
  const auto context_of = [](CUmemorytype type, CUcontext context) {
    return type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST ? nullptr : context;
  };
  return finish_others(context_of(copy.dstMemoryType, copy.dstContext),
                       context_of(copy.srcMemoryType, copy.srcContext));
}

}  // namespace

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  if (const CUresult r = check_both(to_context, from_context); r != CUDA_SUCCESS) return r;
  if (const CUresult r = finish_others(to_context, from_context); r != CUDA_SUCCESS) return r;
  return driver::cuMemcpyDtoD_v2(to, from, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  if (const CUresult r = check_both(to_context, from_context); r != CUDA_SUCCESS) return r;
  return driver::cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  if (const CUresult r = check_ends(copy); r != CUDA_SUCCESS) return r;
  if (const CUresult r = finish_ends(*copy); r != CUDA_SUCCESS) return r;
  const CUDA_MEMCPY3D plain = without_contexts(*copy);
  return driver::cuMemcpy3D_v2(&plain);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  if (const CUresult r = check_ends(copy); r != CUDA_SUCCESS) return r;
  const CUDA_MEMCPY3D plain = without_contexts(*copy);
  return driver::cuMemcpy3DAsync_v2(&plain, stream);
}

}  // namespace vgpu::driver
