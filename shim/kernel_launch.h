// What a launch must be, and its parameters as bytes: for launches in streams and in graphs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_KERNEL_LAUNCH_H_
#define VGPU_SHIM_KERNEL_LAUNCH_H_

#include "api/geometry/cluster.h"
#include "shim/kernel_layout.h"
#include "shim/process.h"

namespace vgpu::shim {

struct Shape {
  uint32_t grid[3], block[3], shared_bytes;
  bool cooperative = false;
  ClusterSize cluster = {};    // as asked for; none: the kernel's own, if any
  bool cluster_later = false;  // of a node whose attributes may still be set
};

// The errors of a launch of `kernel` (whose handle is `function`) on `device`, or on so many of its
// SMs.
CUresult check_shape(Session& session, CUdevice device, CUfunction function, const Kernel& kernel,
                     const Shape& shape, uint32_t sms = 0);

// The part of that about clusters. *chosen: what the launch has.
CUresult check_cluster(Session& session, CUdevice device, const Kernel& kernel, const Shape& shape,
                       ClusterSize* chosen);

// What clusters a kernel may be launched with, on a device that has them or not.
ClusterRules kernel_cluster_rules(const Kernel& kernel, bool served);

// The bytes of a launch's parameters: *buffer is the program's own, or null when they are to be
// packed. INVALID_VALUE when they do not fit the kernel.
CUresult measure_params(const Kernel& kernel, void** params, void** extra, const void** buffer,
                        size_t* bytes);
void pack_params(std::byte* to, const Kernel& kernel, void** params);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_KERNEL_LAUNCH_H_
