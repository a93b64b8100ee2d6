// Other devices: access to their memory, and copies between contexts. All of it is memory of the
// process, so kernels reach it whether or not access was enabled.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <utility>

#include "api/geometry/peer.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Driver;
using softgpu::enter;

// The current context and another one.
CUresult look_up(CUcontext handle, Context** context, std::shared_ptr<Context>* peer) {
  if (const CUresult result = enter(context); result != CUDA_SUCCESS) return result;
  *peer = Driver::instance().contexts.find(handle);
  if (*peer == nullptr || !(*peer)->alive() || peer->get() == *context)
    return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}

CUresult check(CUcontext handle) {
  Context* current = nullptr;
  if (const CUresult result = enter(&current); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<Context> found = Driver::instance().contexts.find(handle);
  return found != nullptr && found->alive() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
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
  Context* context = nullptr;
  std::shared_ptr<Context> peer;
  if (const CUresult result = look_up(handle, &context, &peer); result != CUDA_SUCCESS)
    return result;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (&peer->device() == &context->device()) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return context->add_peer(peer->id) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  Context* context = nullptr;
  std::shared_ptr<Context> peer;
  if (const CUresult result = look_up(handle, &context, &peer); result != CUDA_SUCCESS)
    return result;
  return context->drop_peer(peer->id) ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
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
