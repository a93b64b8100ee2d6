// Waiting for a green context, and events of all of its streams: made of what streams can do.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/capture.h"
#include "api/green/backend.h"
#include "driver_functions.h"

namespace vgpu::green {
namespace {

// CUDA_SUCCESS, or why the green context's streams cannot be given work from outside: a query of a
// stream that is being captured says so, and ends the capture. Under green->mutex.
CUresult check_capture(const Green& green) {
  CUresult result = CUDA_SUCCESS;
  if (!graph::watching()) return result;
  for (const CUstream each : green.streams) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (driver::cuStreamIsCapturing(each, &status) != CUDA_SUCCESS) continue;
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) continue;
    (void)driver::cuStreamQuery(each);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult join(const Green& green, CUstream behind, CUstream stream) {
  const CUresult r = driver::cuEventRecord(green.between, stream);
  return r != CUDA_SUCCESS ? r : driver::cuStreamWaitEvent(behind, green.between, 0);
}

}  // namespace

CUresult catch_up(Green* green, CUstream fresh) {
  return green->gate == nullptr ? CUDA_SUCCESS : join(*green, fresh, green->gate);
}

CUresult synchronize(Green* green) {
  if (!green->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CurrentScope primary(green->primary);
  if (primary.result() != CUDA_SUCCESS) return primary.result();
  std::vector<CUstream> streams;
  {
    std::lock_guard lock(green->mutex);
    if (const CUresult r = check_capture(*green); r != CUDA_SUCCESS) return r;
    streams = green->streams;
  }
  for (const CUstream each : streams) {
    const CUresult r = driver::cuStreamSynchronize(each);
    // Another thread may have destroyed it meanwhile.
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_HANDLE) return r;
  }
  return CUDA_SUCCESS;
}

CUresult record(Green* green, CUevent event) {
  if (!green->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CurrentScope primary(green->primary);
  if (primary.result() != CUDA_SUCCESS) return primary.result();
  std::lock_guard lock(green->mutex);
  if (const CUresult r = check_capture(*green); r != CUDA_SUCCESS) return r;
  for (const CUstream each : green->streams) {
    if (const CUresult r = join(*green, green->gathering, each); r != CUDA_SUCCESS) return r;
  }
  return driver::cuEventRecord(event, green->gathering);
}

CUresult wait(Green* green, CUevent event) {
  if (!green->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  const CurrentScope primary(green->primary);
  if (primary.result() != CUDA_SUCCESS) return primary.result();
  std::lock_guard lock(green->mutex);
  if (const CUresult r = check_capture(*green); r != CUDA_SUCCESS) return r;
  if (const CUresult r = graph::check_context_work(nullptr, event); r != CUDA_SUCCESS) return r;
  if (green->gate == nullptr) {
    const CUresult r = create_stream(*green, 0, &green->gate);
    if (r != CUDA_SUCCESS) return r;
  }
  CUresult r = driver::cuStreamWaitEvent(green->gate, event, 0);
  for (const CUstream each : green->streams) {
    if (r == CUDA_SUCCESS) r = driver::cuStreamWaitEvent(each, event, 0);
  }
  return r;
}

}  // namespace vgpu::green
