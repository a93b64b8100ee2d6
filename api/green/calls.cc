// Green contexts: cuGreenCtx*, and what is asked of streams about them.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "api/graph/backend.h"
#include "api/green/backend.h"
#include "api/green/descriptor.h"
#include "driver_functions.h"

namespace vgpu::driver {
namespace {

using green::Green;

CUresult look_up(CUgreenCtx handle, Green** found) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  *found = green::find(handle);
  if (*found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return (*found)->alive.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                         : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

CUresult cuGreenCtxCreate(CUgreenCtx* handle, CUdevResourceDesc descriptor, CUdevice device,
                          unsigned int flags) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  green::Descriptor described;
  // A green context without a default stream is none: the flag is required.
  if (handle == nullptr || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
      !green::find_descriptor(descriptor, &described) || described.device != device)
    return CUDA_ERROR_INVALID_VALUE;
  Green* made = nullptr;
  const CUresult r = green::create(device, described.resources, &made);
  if (r == CUDA_SUCCESS) *handle = made->handle;
  return r;
}

CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
  Green* found = nullptr;
  const CUresult r = look_up(handle, &found);
  return r != CUDA_SUCCESS ? r : green::destroy(found);
}

CUresult cuCtxFromGreenCtx(CUcontext* context, CUgreenCtx handle) {
  Green* found = nullptr;
  if (const CUresult r = look_up(handle, &found); r != CUDA_SUCCESS) return r;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = found->view;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long* id) {
  Green* found = nullptr;
  if (handle == nullptr) {
    if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
    found = green::current();
    if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    handle = found->handle;
  }
  if (const CUresult r = look_up(handle, &found); r != CUDA_SUCCESS) return r;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = found->unique_id;
  return CUDA_SUCCESS;
}

CUresult cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event) {
  Green* found = nullptr;
  const CUresult r = look_up(handle, &found);
  return r != CUDA_SUCCESS ? r : green::record(found, event);
}

CUresult cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event) {
  Green* found = nullptr;
  const CUresult r = look_up(handle, &found);
  return r != CUDA_SUCCESS ? r : green::wait(found, event);
}

CUresult cuGreenCtxStreamCreate(CUstream* stream, CUgreenCtx handle, unsigned int flags,
                                int priority) {
  Green* found = nullptr;
  if (const CUresult r = look_up(handle, &found); r != CUDA_SUCCESS) return r;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  return green::add_stream(found, flags, priority, stream);
}

CUresult cuStreamGetGreenCtx(CUstream stream, CUgreenCtx* handle) {
  CUcontext context = nullptr;
  return handle == nullptr ? graph::wrong_argument()
                           : driver::cuStreamGetCtx_v2(stream, &context, handle);
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext* context, CUgreenCtx* handle) {
  CUcontext plain = nullptr;
  const CUresult r = driver::cuStreamGetCtx(stream, context == nullptr ? nullptr : &plain);
  if (r != CUDA_SUCCESS) return r;
  const Green* const view = green::find_view(plain);
  *context = view == nullptr ? plain : view->primary;
  if (handle != nullptr) *handle = view == nullptr ? nullptr : view->handle;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
