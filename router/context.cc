// Contexts: the threads' stacks are the router's, all else is the servers'.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/calls/hooks.h"
#include "api/cudart/context_storage.h"
#include "driver_functions.h"
#include "router/place.h"
#include "router/transfers.h"

namespace vgpu::calls {

CUresult check_context(CUcontext handle) {
  if (router::Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (router::t_current == nullptr || handle == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  unsigned version = 0;
  const auto& driver = router::owner_of(handle)->driver;
  return driver.cuCtxGetApiVersion(handle, &version) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace vgpu::calls

namespace vgpu::driver {

using router::by_device;
using router::by_handle;
using router::owner_of;
using router::Place;
using router::Server;
using router::Servers;

namespace {

// A copy has made a context, and put it onto its own stack.
CUresult made(const Place& at, CUresult result, const CUcontext* context) {
  if (result != CUDA_SUCCESS) return result;
  router::settle(at.server, true);
  router::push_current(*context);
  return result;
}

void ended(Server* server, CUcontext context) {
  cudart::run_context_destructors(context);
  router::transfers().forget(*server, context);
  router::settle(server, false);
  router::drop_current(context);
}

bool is_active(const Place& at, CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  return at->cuDevicePrimaryCtxGetState(at.local(device), &flags, &active) == CUDA_SUCCESS &&
         active != 0;
}

// After a release or a reset of a device's primary context.
CUresult maybe_ended(const Place& at, CUdevice device, bool was_active, CUresult result) {
  CUcontext primary = nullptr;
  if (!was_active || is_active(at, device) ||
      at.server->library->primary_context(&primary, at.local(device)) != CUDA_SUCCESS)
    return result;
  cudart::run_context_destructors(primary);
  router::transfers().forget(*at.server, primary);
  return result;
}

// A primary one that is not retained does, and one whose server is lost: its calls say so.
bool exists(CUcontext handle) {
  unsigned version = 0;
  return owner_of(handle)->driver.cuCtxGetApiVersion(handle, &version) !=
         CUDA_ERROR_INVALID_CONTEXT;
}

}  // namespace

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  return made(at, at->cuCtxCreate_v2(out, flags, at.local(device)), out);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* params, int count, unsigned int flags,
                        CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  return made(at, at->cuCtxCreate_v3(out, params, count, flags, at.local(device)), out);
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags,
                        CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  return made(at, at->cuCtxCreate_v4(out, params, flags, at.local(device)), out);
}

CUresult cuCtxDestroy_v2(CUcontext context) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Server* server = owner_of(context);
  if (CUresult r = server->driver.cuCtxDestroy_v2(context); r != CUDA_SUCCESS) return r;
  ended(server, context);
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr || router::current_context() != context) return CUDA_ERROR_INVALID_CONTEXT;
  Server* server = owner_of(context);
  if (CUresult r = server->driver.cuCtxDetach(context); r != CUDA_SUCCESS) return r;
  if (exists(context)) return CUDA_SUCCESS;
  ended(server, context);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = router::current_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (context != nullptr && context != router::current_context() && !exists(context))
    return CUDA_ERROR_INVALID_CONTEXT;
  router::set_current(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr || !exists(context)) return CUDA_ERROR_INVALID_CONTEXT;
  router::push_current(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  if (Servers::attached() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUcontext context = router::pop_current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = context;
  return CUDA_SUCCESS;
}

// Unique among all servers' contexts.
CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  const Place at = by_handle(context);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at.as_ours(at->cuCtxGetId(context, id), id);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  const bool was_active = is_active(at, device);
  return maybe_ended(at, device, was_active, at->cuDevicePrimaryCtxRelease_v2(at.local(device)));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  const Place at = by_device(device);
  if (at.result != CUDA_SUCCESS) return at.result;
  const bool was_active = is_active(at, device);
  return maybe_ended(at, device, was_active, at->cuDevicePrimaryCtxReset_v2(at.local(device)));
}

// What was sent through the guest and did not arrive is told where a program waits.
CUresult cuCtxSynchronize() {
  const Place at = router::by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  const CUresult result = at->cuCtxSynchronize();
  return router::transfers().told(*at.server, router::current_context(), result);
}

CUresult cuCtxSynchronize_v2(CUcontext context) {
  if (context == nullptr) return driver::cuCtxSynchronize();
  const Place at = by_handle(context);
  if (at.result != CUDA_SUCCESS) return at.result;
  return router::transfers().told(*at.server, context, at->cuCtxSynchronize_v2(context));
}

}  // namespace vgpu::driver
