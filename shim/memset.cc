// Fills: cuMemset*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/fill.h"

namespace vgpu::driver {

using shim::fill;
using shim::FillEnd;

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill({to, 0, value, 1, count, 1}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill({to, 0, value, 2, count, 1}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count) {
  return fill({to, 0, value, 4, count, 1}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill({to, 0, value, 1, count, 1}, stream, FillEnd::kReturns);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill({to, 0, value, 2, count, 1}, stream, FillEnd::kReturns);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  return fill({to, 0, value, 4, count, 1}, stream, FillEnd::kReturns);
}

}  // namespace vgpu::driver
