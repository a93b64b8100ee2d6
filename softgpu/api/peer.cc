// Access to the memory of other devices; copies between contexts are in api/calls. All of it is
// memory of the process, so kernels reach it whether or not access was enabled.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::calls {

CUresult check_context(CUcontext handle) {
  softgpu::Context* current = nullptr;
  if (const CUresult result = softgpu::enter(&current); result != CUDA_SUCCESS) return result;
  const auto found = softgpu::Driver::instance().contexts.find(handle);
  return found != nullptr && found->alive() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace vgpu::calls

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

}  // namespace vgpu::driver
