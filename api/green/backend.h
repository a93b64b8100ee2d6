// What green contexts ask of the driver that they are part of. Each function is defined by
// shim/green.cc and softgpu/api/green.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>
#include <vector>

#include "api/green/contexts.h"

namespace vgpu::green {

// The SMs of a device, which was checked, and those of a context that is no view of a green one.
CUresult resource_of_device(CUdevice device, CUdevResource* resource);
CUresult resource_of_context(CUcontext context, CUdevResource* resource);

// What a split makes: groups of the same size, and what is left. A resource of no SMs is of type
// INVALID.
struct Split {
  std::vector<CUdevResource> groups;
  CUdevResource remaining;
};
// Splits an SM resource of ours; `minimum` is at most what it has. At most `room` groups.
CUresult split(const CUdevResource& input, unsigned flags, unsigned minimum, unsigned room,
               Split* split);

// Takes SMs of a device whose primary context is retained for streams: *partition names them, and
// *all is a resource of all of them.
CUresult open_partition(CUdevice device, const std::vector<CUdevResource>& resources,
                        uint64_t* partition, CUdevResource* all);
// Nothing runs there any more.
void close_partition(CUdevice device, uint64_t partition);

// A non-blocking stream over them in the current context, which is their device's primary one.
CUresult create_stream(const Green& green, int priority, CUstream* stream);

// SMs that a context is limited to, or all. UNSUPPORTED_EXEC_AFFINITY where contexts of the device
// cannot be limited.
CUresult sm_affinity(CUcontext context, unsigned* sms);

// The green context whose view is current to the calling thread; nullptr: none.
Green* current();

}  // namespace vgpu::green
