// Other devices, of which a guest has none; copies between contexts are in api/calls.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::calls {

CUresult check_context(CUcontext handle) {
  shim::Session* session;
  shim::Context* current;
  if (CUresult r = shim::enter(&session, &current); r != CUDA_SUCCESS) return r;
  const shim::Context* found = session->contexts().find_living(handle);
  const bool alive = found != nullptr && found->active.load(std::memory_order_acquire);
  return alive ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace vgpu::calls

namespace vgpu::driver {
namespace {

CUresult check_peer(CUcontext handle) {
  if (const CUresult r = calls::check_context(handle); r != CUDA_SUCCESS) return r;
  return shim::current_context()->handle() == handle ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
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

}  // namespace vgpu::driver
