// Other devices, of which a guest has none, and copies between contexts.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <utility>

#include "api/geometry/peer.h"
#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {
namespace {

using shim::Context;
using shim::enter;
using shim::Session;

CUresult check(CUcontext handle) {
  Session* session;
  Context* current;
  if (CUresult r = enter(&session, &current); r != CUDA_SUCCESS) return r;
  const Context* found = session->contexts().find_living(handle);
  const bool alive = found != nullptr && found->active.load(std::memory_order_acquire);
  return alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult check_peer(CUcontext handle) {
  if (const CUresult r = check(handle); r != CUDA_SUCCESS) return r;
  return shim::current_context()->handle() == handle ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult check_both(CUcontext to, CUcontext from) {
  const CUresult result = check(to);
  return result != CUDA_SUCCESS ? result : check(from);
}

// Arrays know their context themselves.
CUresult check_ends(const CUDA_MEMCPY3D_PEER* copy) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [type, context] : {std::pair(copy->srcMemoryType, copy->srcContext),
                                      std::pair(copy->dstMemoryType, copy->dstContext)}) {
    if (type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_HOST) continue;
    if (const CUresult result = check(context); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  if (const CUresult r = check_peer(handle); r != CUDA_SUCCESS) return r;
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  const CUresult r = check_peer(handle);
  return r != CUDA_SUCCESS ? r : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  if (const CUresult r = check_both(to_context, from_context); r != CUDA_SUCCESS) return r;
  return driver::cuMemcpyDtoD_v2(to, from, bytes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  if (const CUresult r = check_both(to_context, from_context); r != CUDA_SUCCESS) return r;
  return driver::cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  if (const CUresult r = check_ends(copy); r != CUDA_SUCCESS) return r;
  const CUDA_MEMCPY3D plain = without_contexts(*copy);
  return driver::cuMemcpy3D_v2(&plain);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy, CUstream stream) {
  if (const CUresult r = check_ends(copy); r != CUDA_SUCCESS) return r;
  const CUDA_MEMCPY3D plain = without_contexts(*copy);
  return driver::cuMemcpy3DAsync_v2(&plain, stream);
}

}  // namespace vgpu::driver
