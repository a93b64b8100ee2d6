// Streams, events and host memory: what needs to know of more than one server.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "router/place.h"
#include "router/transfers.h"

namespace vgpu::driver {

using router::by_handle;
using router::by_stream;
using router::Place;
using router::transfers;

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  const Place other = event == nullptr ? at : by_handle(event);
  if (other.server == at.server) return at->cuStreamWaitEvent(stream, event, flags);
  if (router::t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  return transfers().wait_for(*at.server, stream, *other.server, event);
}

CUresult cuCtxWaitEvent(CUcontext context, CUevent event) {
  const Place at = by_handle(context);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (event != nullptr && router::owner_of(event) != at.server)
    return router::refuse_across("a context that waits for an event");
  return at->cuCtxWaitEvent(context, event);
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  const Place at = by_handle(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  const CUresult result = at->cuStreamDestroy_v2(stream);
  if (result == CUDA_SUCCESS) transfers().forget(*at.server, stream);
  return result;
}

CUresult cuStreamSynchronize(CUstream stream) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return transfers().told(*at.server, stream, at->cuStreamSynchronize(stream));
}

CUresult cuStreamQuery(CUstream stream) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return transfers().told(*at.server, stream, at->cuStreamQuery(stream));
}

// Unique among all servers' streams.
CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  const Place at = by_stream(stream);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at.as_ours(at->cuStreamGetId(stream, id), id);
}

// A server's devices reach what was allocated for it, no other's.
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer, unsigned int flags) {
  const Place at = router::by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  const router::Memory memory = router::Servers::attached() == nullptr
                                    ? router::Memory{}
                                    : router::memory_at(reinterpret_cast<uint64_t>(pointer));
  if (memory.server != nullptr && memory.server != at.server)
    return router::refuse_across("host memory that another server's devices reach");
  return at->cuMemHostGetDevicePointer_v2(out, pointer, flags);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  const Place at = router::by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  if (router::t_current == nullptr || peer == nullptr || router::owner_of(peer) == at.server)
    return at->cuCtxEnablePeerAccess(peer, flags);
  unsigned version = 0;
  const auto& other = router::owner_of(peer)->driver;
  if (other.cuCtxGetApiVersion(peer, &version) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_CONTEXT;
  return flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  const Place at = router::by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  if (router::t_current == nullptr || peer == nullptr || router::owner_of(peer) == at.server)
    return at->cuCtxDisablePeerAccess(peer);
  return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

// Every server's copy has the thread's mode.
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const Place at = router::by_current();
  if (at.result != CUDA_SUCCESS) return at.result;
  if (mode == nullptr) return at->cuThreadExchangeStreamCaptureMode(mode);
  const CUstreamCaptureMode wanted = *mode;
  const CUresult result = at->cuThreadExchangeStreamCaptureMode(mode);
  if (result != CUDA_SUCCESS) return result;
  for (router::Server& server : router::Servers::attached()->all()) {
    CUstreamCaptureMode same = wanted;
    if (&server != at.server) (void)server.driver.cuThreadExchangeStreamCaptureMode(&same);
  }
  return result;
}

}  // namespace vgpu::driver
