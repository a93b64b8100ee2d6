// Kernels of a module, one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vgpu::calls {

// cudart::Host::each_kernel of a library that keeps no table of its own for it.
uint64_t each_kernel(CUmodule module, void (*visit)(void* user, CUfunction, uint64_t), void* user);

}  // namespace vgpu::calls
