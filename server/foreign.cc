// A stream of the device that has the memory, for one piece of work.
// SPDX-License-Identifier: Apache-2.0
#include "server/foreign.h"

namespace vgpu::server {

WorkPlace::WorkPlace(const Session& session, const Stream& stream, int device) {
  if (device < 0 || static_cast<uint32_t>(device) == stream.context->device) return;
  const Device* owner = session.find_device(static_cast<uint32_t>(device));
  here_ = stream.context->handle;
  owner_ = owner;
}

CUresult WorkPlace::begin(const DriverTable& driver, CUcontext there, CUstream stream,
                          Detour* detour) {
  CUresult result = driver.cuEventCreate(&detour->before, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = driver.cuEventRecord(detour->before, stream);
  if (result == CUDA_SUCCESS) result = driver.cuCtxSetCurrent(there);
  if (result == CUDA_SUCCESS)
    result = driver.cuStreamCreateWithPriority(&detour->stream, CU_STREAM_NON_BLOCKING, 0);
  if (result == CUDA_SUCCESS) result = driver.cuStreamWaitEvent(detour->stream, detour->before, 0);
  return result;
}

// The driver keeps what is destroyed until it is past.
CUresult WorkPlace::end(const DriverTable& driver, CUstream stream, Detour* detour,
                        CUresult result) const {
  if (result == CUDA_SUCCESS)
    result = driver.cuEventCreate(&detour->after, CU_EVENT_DISABLE_TIMING);
  if (result == CUDA_SUCCESS) result = driver.cuEventRecord(detour->after, detour->stream);
  const CUresult back = driver.cuCtxSetCurrent(here_);
  if (result == CUDA_SUCCESS) result = back;
  if (result == CUDA_SUCCESS) result = driver.cuStreamWaitEvent(stream, detour->after, 0);
  if (detour->stream != nullptr) (void)driver.cuStreamDestroy_v2(detour->stream);
  if (detour->before != nullptr) (void)driver.cuEventDestroy_v2(detour->before);
  if (detour->after != nullptr) (void)driver.cuEventDestroy_v2(detour->after);
  return result;
}

}  // namespace vgpu::server
