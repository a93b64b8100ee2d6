// The primary context of a device.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {
namespace {

using softgpu::check_device;
using softgpu::Context;
using softgpu::Driver;

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context& primary = Driver::instance().primary(device);
  std::lock_guard<std::mutex> lock(primary.primary_mutex);
  if (!primary.alive()) primary.open(primary.flags.load());
  ++primary.retained;
  *handle = primary.handle;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  Context& primary = Driver::instance().primary(device);
  std::lock_guard<std::mutex> lock(primary.primary_mutex);
  if (primary.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.retained == 0) primary.close();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  Context& primary = Driver::instance().primary(device);
  std::lock_guard<std::mutex> lock(primary.primary_mutex);
  primary.close();
  primary.retained = 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context& primary = Driver::instance().primary(device);
  std::lock_guard<std::mutex> lock(primary.primary_mutex);
  *flags = primary.flags.load();
  *active = primary.alive() ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  if (const CUresult result = check_device(device); result != CUDA_SUCCESS) return result;
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  if ((flags & ~CU_CTX_FLAGS_MASK) != 0 || (schedule & (schedule - 1)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Driver::instance().primary(device).flags.store(flags);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
