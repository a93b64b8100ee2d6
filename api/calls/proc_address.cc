// The first cuGetProcAddress, which did not say why it had found nothing. A file of its own: the
// router takes this one, and not the other first versions.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include "driver_functions.h"

namespace vgpu::driver {

CUresult cuGetProcAddress(const char* symbol, void** address, int version, cuuint64_t flags) {
  return driver::cuGetProcAddress_v2(symbol, address, version, flags, nullptr);
}

}  // namespace vgpu::driver
