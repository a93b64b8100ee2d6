// Kernel launches.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "softgpu/api/capture_hooks.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/launch_object.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::LaunchShape;

// What a launch is besides its shape, for capture.
struct LaunchExtras {
  const CUlaunchAttribute* attributes = nullptr;
  unsigned count = 0;
};

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** params,
                void** extra, const LaunchExtras& extras = {}) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, stream_handle);
  if (stream == nullptr) return green::lost_stream(stream_handle);
  if (graph::watching()) [[unlikely]] {
    const CUDA_KERNEL_NODE_PARAMS_v2 node = {
        handle,        shape.grid.x,  shape.grid.y,  shape.grid.z,
        shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes,
        params,        extra,         nullptr,       stream->context->handle};
    const auto taken =
        graph::capture_kernel(softgpu::key_of(*stream), node, extras.attributes, extras.count);
    if (taken.has_value()) return *taken;
  }
  if (stream->context != context) {
    // A CUkernel runs in the stream's context, a CUfunction in its own, which must be current.
    if (softgpu::Driver::instance().functions.find(handle) != nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    context = stream->context;
    if (const CUresult sticky = context->sticky(); sticky != CUDA_SUCCESS) return sticky;
  }
  const softgpu::SmSet& sms = stream->queue->sms;
  LaunchShape placed = shape;
  placed.sms = sms;
  softgpu::Launch prepared;
  const CUresult result =
      softgpu::prepare_launch(*context, handle, placed, params, extra, &prepared);
  if (result != CUDA_SUCCESS) return result;
  context->output().flush();
  softgpu::submit_launch(prepared, stream->channel, stream->queue, stream->priority, sms, {},
                         nullptr);
  return CUDA_SUCCESS;
}

// Attributes of cuLaunchKernelEx: what we can honour or what is a hint only.
CUresult read_attributes(const CUlaunchConfig& config, LaunchShape* shape) {
  if (config.numAttrs > 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:  // the regular size is always allowed
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:  // full serialisation is always
                                                                   // allowed
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:  // a hint
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        shape->priority = std::clamp(attribute.value.priority, softgpu::kPriorityGreatest,
                                     softgpu::kPriorityLeast);
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster = cluster_size(attribute.value);
        break;
      default:
        return not_served("a launch attribute of cuLaunchKernelEx");
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** params, void** extra) {
  LaunchShape shape;
  shape.grid = {grid_x, grid_y, grid_z};
  shape.block = {block_x, block_y, block_z};
  shape.shared_bytes = shared_bytes;
  return launch(function, shape, stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** params) {
  LaunchShape shape;
  shape.grid = {grid_x, grid_y, grid_z};
  shape.block = {block_x, block_y, block_z};
  shape.shared_bytes = shared_bytes;
  shape.cooperative = true;
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return launch(function, shape, stream, params, nullptr, {&attribute, 1});
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  LaunchShape shape;
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.shared_bytes = config->sharedMemBytes;
  if (const CUresult result = read_attributes(*config, &shape); result != CUDA_SUCCESS)
    return result;
  const CUstream stream = config->hStream == nullptr ? default_stream() : config->hStream;
  return launch(function, shape, stream, params, extra, {config->attrs, config->numAttrs});
}

}  // namespace vgpu::driver
