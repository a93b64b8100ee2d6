// Memory imported by descriptor: buffers of it are freed by cuMemFree.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_EXTERNAL_EXTERNAL_MEMORY_H_
#define VGPU_API_EXTERNAL_EXTERNAL_MEMORY_H_

#include <cuda.h>

namespace vgpu::external {

// For cuMemFree: false when no buffer begins there.
bool free_buffer(CUdeviceptr address);

}  // namespace vgpu::external

#endif  // VGPU_API_EXTERNAL_EXTERNAL_MEMORY_H_
