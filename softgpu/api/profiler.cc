// Switching a profiler on and off. None can be attached, so only the context matters.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "softgpu/api/driver.h"

namespace vgpu::driver {

CUresult cuProfilerStart() {
  softgpu::Context* context = nullptr;
  return softgpu::enter(&context);
}

CUresult cuProfilerStop() { return driver::cuProfilerStart(); }

}  // namespace vgpu::driver
