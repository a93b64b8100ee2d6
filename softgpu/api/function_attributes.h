// Attributes and limits of one kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "api/geometry/cluster.h"
#include "softgpu/api/module_object.h"
#include "softgpu/exec/device_config.h"

namespace vgpu::softgpu {

CUresult function_attribute(const KernelInfo& info, const FunctionSettings& settings,
                            CUfunction_attribute attribute, int* value);
CUresult set_function_attribute(const KernelInfo& info, FunctionSettings& settings,
                                CUfunction_attribute attribute, int value);
CUresult param_info(const KernelInfo& info, size_t index, size_t* offset, size_t* bytes);

// What clusters the kernel may be launched with.
ClusterRules kernel_cluster_rules(const KernelInfo& info, const FunctionSettings& settings,
                                  const DeviceConfig& config);
// Whether a launch that names no size may still have one, or be wrong.
bool demands_cluster(const KernelInfo& info, const FunctionSettings& settings);
// Threads that a block of this kernel may have at most.
int max_threads(const KernelInfo& info);
// Dynamic shared memory that a launch may ask for.
int dynamic_shared_max(const KernelInfo& info, const FunctionSettings& settings);
// Blocks that fit on one SM at once.
int blocks_per_sm(const KernelInfo& info, const CapabilityLimits& limits, int block_threads,
                  size_t dynamic_shared);

}  // namespace vgpu::softgpu
