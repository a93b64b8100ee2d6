// Green contexts as they come and go, and their streams.
// SPDX-License-Identifier: Apache-2.0
#include "api/green/contexts.h"

#include <algorithm>
#include <utility>

#include "api/green/backend.h"
#include "api/green/table.h"
#include "base/log.h"
#include "driver_functions.h"

namespace vgpu::green {
namespace {

bool is_special(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

// Of a new green context: its own streams, and the event between them.
CUresult open_streams(Green* green) {
  CUresult r = create_stream(*green, 0, &green->default_stream);
  if (r == CUDA_SUCCESS) r = create_stream(*green, 0, &green->gathering);
  if (r == CUDA_SUCCESS) r = driver::cuEventCreate(&green->between, CU_EVENT_DISABLE_TIMING);
  return r;
}

// Everything in it ends, once it is past. The primary context is current.
void close_streams(Green* green) {
  std::vector<CUstream> streams;
  CUevent between;
  {
    std::lock_guard lock(green->mutex);
    streams.swap(green->streams);
    for (CUstream* own : {&green->gathering, &green->gate}) {
      if (*own != nullptr) streams.push_back(*own);
      *own = nullptr;
    }
    between = std::exchange(green->between, nullptr);
  }
  for (const CUstream each : streams) (void)driver::cuStreamSynchronize(each);
  for (const CUstream each : streams) (void)driver::cuStreamDestroy_v2(each);
  if (between != nullptr) (void)driver::cuEventDestroy_v2(between);
}

}  // namespace

Green* owner_of(CUstream stream) {
  if (!any.load(std::memory_order_relaxed) || is_special(stream)) [[likely]]
    return nullptr;
  std::lock_guard lock(table().mutex);
  const auto found = table().owners.find(stream);
  return found == table().owners.end() ? nullptr : found->second;
}

CUresult lost_stream(CUstream stream) {
  const Green* green =
      is_special(stream) && any.load(std::memory_order_relaxed) ? current() : owner_of(stream);
  const bool gone = green != nullptr && !green->alive.load(std::memory_order_acquire);
  return gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_HANDLE;
}

CUcontext context_of(CUstream stream, CUcontext plain) {
  if (!any.load(std::memory_order_relaxed)) [[likely]]
    return plain;
  const Green* green = is_special(stream) ? current() : owner_of(stream);
  return green == nullptr ? plain : green->view;
}

CUresult add_stream(Green* green, unsigned flags, int priority, CUstream* stream) {
  if (!green->alive.load(std::memory_order_acquire)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_STREAM_NON_BLOCKING) {
    VGPU_LOG_WARN("cuStreamCreate: in a green context streams are CU_STREAM_NON_BLOCKING only");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const CurrentScope primary(green->primary);
  if (primary.result() != CUDA_SUCCESS) return primary.result();
  CUresult r = create_stream(*green, priority, stream);
  if (r != CUDA_SUCCESS) return r;
  {
    std::lock_guard lock(table().mutex);
    table().owners[*stream] = green;
  }
  std::lock_guard lock(green->mutex);
  green->streams.push_back(*stream);
  return catch_up(green, *stream);
}

void forget_stream(CUstream stream) {
  Green* const green = owner_of(stream);
  if (green == nullptr || !green->alive.load(std::memory_order_acquire)) return;
  {
    std::lock_guard lock(table().mutex);
    table().owners.erase(stream);
  }
  std::lock_guard lock(green->mutex);
  std::erase(green->streams, stream);
}

void forget_context(CUcontext primary) {
  if (!any.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(table().mutex);
  for (Green& green : table().all) {
    if (green.primary == primary) green.alive.store(false);
  }
}

CurrentScope::CurrentScope(CUcontext context) : result_(driver::cuCtxPushCurrent_v2(context)) {}

CurrentScope::~CurrentScope() {
  CUcontext popped = nullptr;
  if (result_ == CUDA_SUCCESS) (void)driver::cuCtxPopCurrent_v2(&popped);
}

CUresult create(CUdevice device, const std::vector<CUdevResource>& resources, Green** made) {
  CUcontext primary = nullptr;
  CUresult r = driver::cuDevicePrimaryCtxRetain(&primary, device);
  if (r != CUDA_SUCCESS) return r;
  Green* const green = make_entry(device, primary);
  if (green == nullptr) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r == CUDA_SUCCESS) r = open_partition(device, resources, &green->partition, &green->resource);
  if (r != CUDA_SUCCESS) {
    (void)driver::cuDevicePrimaryCtxRelease_v2(device);
    return r;
  }
  {
    const CurrentScope scope(primary);
    r = scope.result() == CUDA_SUCCESS ? open_streams(green) : scope.result();
    if (r == CUDA_SUCCESS) {
      green->streams.push_back(green->default_stream);
    } else if (green->default_stream != nullptr) {
      (void)driver::cuStreamDestroy_v2(green->default_stream);
      close_streams(green);
    }
  }
  if (r != CUDA_SUCCESS) {
    close_partition(device, green->partition);
    (void)driver::cuDevicePrimaryCtxRelease_v2(device);
    return r;
  }
  green->alive.store(true, std::memory_order_release);
  any.store(true, std::memory_order_relaxed);
  *made = green;
  return CUDA_SUCCESS;
}

CUresult destroy(Green* green) {
  if (!green->alive.exchange(false)) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  {
    const CurrentScope scope(green->primary);
    if (scope.result() == CUDA_SUCCESS) close_streams(green);
  }
  close_partition(green->device, green->partition);
  return driver::cuDevicePrimaryCtxRelease_v2(green->device);
}

}  // namespace vgpu::green
