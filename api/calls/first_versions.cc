// First versions of functions whose sizes had 32 bits and whose addresses, if any, already had all:
// today's with narrower numbers. The others (api/spec,
// "addresses of 32 bits") are refused. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <climits>

#include "driver_functions.h"

namespace vgpu::driver {
namespace {

// More than fits is told as the most that does.
void narrow(size_t value, unsigned* out) {
  *out = static_cast<unsigned>(std::min<size_t>(value, UINT_MAX));
}

}  // namespace

CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  size_t all = 0;
  const CUresult r = driver::cuDeviceTotalMem_v2(bytes == nullptr ? nullptr : &all, device);
  if (r == CUDA_SUCCESS) narrow(all, bytes);
  return r;
}

CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  size_t free_bytes = 0, total_bytes = 0;
  const CUresult r = driver::cuMemGetInfo_v2(free == nullptr ? nullptr : &free_bytes,
                                             total == nullptr ? nullptr : &total_bytes);
  if (r != CUDA_SUCCESS) return r;
  if (free != nullptr) narrow(free_bytes, free);
  if (total != nullptr) narrow(total_bytes, total);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost(void** out, unsigned int bytes) {
  return driver::cuMemAllocHost_v2(out, bytes);
}

CUresult cuMemcpyHtoA(CUarray to, unsigned int offset, const void* from, unsigned int bytes) {
  return driver::cuMemcpyHtoA_v2(to, offset, from, bytes);
}

CUresult cuMemcpyAtoH(void* to, CUarray from, unsigned int offset, unsigned int bytes) {
  return driver::cuMemcpyAtoH_v2(to, from, offset, bytes);
}

CUresult cuMemcpyAtoA(CUarray to, unsigned int to_offset, CUarray from, unsigned int from_offset,
                      unsigned int bytes) {
  return driver::cuMemcpyAtoA_v2(to, to_offset, from, from_offset, bytes);
}

CUresult cuMemcpyHtoAAsync(CUarray to, unsigned int offset, const void* from, unsigned int bytes,
                           CUstream stream) {
  return driver::cuMemcpyHtoAAsync_v2(to, offset, from, bytes, stream);
}

CUresult cuMemcpyAtoHAsync(void* to, CUarray from, unsigned int offset, unsigned int bytes,
                           CUstream stream) {
  return driver::cuMemcpyAtoHAsync_v2(to, from, offset, bytes, stream);
}

}  // namespace vgpu::driver
