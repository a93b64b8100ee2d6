// Attributes of pointers: devices are told in the program's numbers.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {
namespace {

void as_ours(const router::Place& at, CUpointer_attribute which, void* data) {
  if (which != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || data == nullptr) return;
  auto* const device = static_cast<int*>(data);
  if (*device >= 0) *device = router::Servers::attached()->number_of(*at.server, *device);
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr address) {
  const router::Place at = router::by_address(address);
  if (at.result != CUDA_SUCCESS) return at.result;
  const CUresult result = at->cuPointerGetAttribute(data, which, address);
  if (result == CUDA_SUCCESS) as_ours(at, which, data);
  return result;
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  const router::Place at = router::by_address(address);
  if (at.result != CUDA_SUCCESS) return at.result;
  const CUresult result = at->cuPointerGetAttributes(count, attributes, data, address);
  for (unsigned i = 0; result == CUDA_SUCCESS && i < count; ++i)
    as_ours(at, attributes[i], data[i]);
  return result;
}

}  // namespace vgpu::driver
