// What a CUdevResourceDesc names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <vector>

namespace vgpu::green {

struct Descriptor {
  CUdevice device = 0;
  std::vector<CUdevResource> resources;
};

// False when the handle is no descriptor's. Thread-safe, as is keep_descriptor().
bool find_descriptor(CUdevResourceDesc handle, Descriptor* found);
CUdevResourceDesc keep_descriptor(Descriptor descriptor);

}  // namespace vgpu::green
