// Access to memory of other devices; copies between contexts are in api/calls.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "driver_functions.h"
#include "shim/device.h"
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

using shim::Context;
using shim::enter;
using shim::Session;

// The current context and another one.
CUresult look_up(CUcontext handle, Session** session, Context** context, Context** peer) {
  if (CUresult r = enter(session, context); r != CUDA_SUCCESS) return r;
  *peer = (*session)->contexts().find_living(handle);
  const bool alive = *peer != nullptr && (*peer)->active.load(std::memory_order_acquire);
  return alive && *peer != *context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult set_peer(Session& session, Context* context, Context* peer, bool enable) {
  wire::PeerAccessArgs args;
  args.context = context->id;
  args.peer = peer->id;
  args.enable = enable ? 1 : 0;
  return session.contexts().set_peer(context, peer, enable,
                                     [&] { return session.call(context, Op::kPeerAccess, args); });
}

}  // namespace

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
  Session* session;
  Context *context, *peer;
  if (const CUresult r = look_up(handle, &session, &context, &peer); r != CUDA_SUCCESS) return r;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!shim::can_access_peer(*session, context->device, peer->device))
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  return set_peer(*session, context, peer, true);
}

CUresult cuCtxDisablePeerAccess(CUcontext handle) {
  Session* session;
  Context *context, *peer;
  if (const CUresult r = look_up(handle, &session, &context, &peer); r != CUDA_SUCCESS) return r;
  if (!session->contexts().is_peer(context, peer)) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  (void)driver::cuCtxSynchronize();  // what runs may still use it
  return set_peer(*session, context, peer, false);
}

}  // namespace vgpu::driver
