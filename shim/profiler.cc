// Switching a profiler on and off. None can be attached, so only the context matters.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/process.h"

namespace vgpu::driver {

CUresult cuProfilerStart() {
  shim::Session* session;
  shim::Context* context;
  return shim::enter(&session, &context);
}

CUresult cuProfilerStop() { return driver::cuProfilerStart(); }

}  // namespace vgpu::driver
