// Fills of rows: cuMemsetD2D*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "shim/fill.h"

namespace vgpu::driver {

using shim::fill;
using shim::FillEnd;

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return fill({to, pitch, value, 1, width, height}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return fill({to, pitch, value, 2, width, height}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                          size_t height) {
  return fill({to, pitch, value, 4, width, height}, nullptr, FillEnd::kWaits);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return fill({to, pitch, value, 1, width, height}, stream, FillEnd::kReturns);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return fill({to, pitch, value, 2, width, height}, stream, FillEnd::kReturns);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
                            size_t height, CUstream stream) {
  return fill({to, pitch, value, 4, width, height}, stream, FillEnd::kReturns);
}

}  // namespace vgpu::driver
