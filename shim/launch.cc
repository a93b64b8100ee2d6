// Launches: parameters are packed with the layout that the module came with.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>
#include <mutex>
#include <tuple>

#include "api/default_stream.h"
#include "base/log.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/kernel_launch.h"
#include "shim/kernel_use.h"
#include "shim/module_table.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::find_any_stream;
using shim::find_function;
using shim::find_stream;
using shim::Function;
using shim::id_of;
using shim::Kernel;
using shim::Session;
using shim::Shape;
using shim::StreamRef;

namespace {

// What a launch is besides its shape, for capture.
struct LaunchExtras {
  const CUlaunchAttribute* attributes = nullptr;
  unsigned count = 0;
};

CUresult launch(CUfunction handle, const Shape& shape, CUstream stream_handle, void** params,
                void** extra, const LaunchExtras& extras = {}) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Function* function = find_function(*session, handle);
  if (function == nullptr) [[unlikely]]
    return CUDA_ERROR_INVALID_HANDLE;
  if (function->context != nullptr && function->context != context) [[unlikely]]
    return CUDA_ERROR_INVALID_HANDLE;
  StreamRef stream;
  // A CUkernel runs in the stream's context, a CUfunction in its own, which must be current.
  if (CUresult r = function->kernel->kernel_id == id_of(handle)
                       ? find_any_stream(*session, stream_handle, &stream, &context)
                       : find_stream(*session, context, stream_handle, &stream);
      r != CUDA_SUCCESS)
    return r;
  if (graph::watching()) [[unlikely]] {
    const auto& [grid, block] = std::tie(shape.grid, shape.block);
    const CUDA_KERNEL_NODE_PARAMS_v2 node = {handle,   grid[0],  grid[1],  grid[2],
                                             block[0], block[1], block[2], shape.shared_bytes,
                                             params,   extra,    nullptr,  context->handle()};
    const auto taken = graph::capture_kernel(shim::key_of(*context, stream), node,
                                             extras.attributes, extras.count);
    if (taken.has_value()) return *taken;
  }
  Kernel* used = nullptr;
  if (CUresult r = shim::use_kernel(*session, context, *function, &used); r != CUDA_SUCCESS)
    return r;
  const Kernel& kernel = *used;
  const uint32_t sms = shape.cooperative ? shim::sms_of(*context, stream) : 0;
  if (CUresult r = shim::check_shape(*session, context->device, handle, kernel, shape, sms);
      r != CUDA_SUCCESS)
    return r;
  const void* buffer = nullptr;
  size_t bytes = 0;
  if (CUresult r = shim::measure_params(kernel, params, extra, &buffer, &bytes); r != CUDA_SUCCESS)
    return r;
  wire::LaunchArgs args;
  args.module = function->module;
  args.stream = stream.id;
  args.index = function->index;
  std::memcpy(args.grid, shape.grid, sizeof(args.grid));
  std::memcpy(args.block, shape.block, sizeof(args.block));
  args.shared_bytes = shape.shared_bytes;
  args.flags = shape.cooperative ? protocol::kLaunchCooperative : 0;
  args.param_bytes = static_cast<uint32_t>(bytes);
  args.cluster = pack_cluster(shape.cluster);
  (void)session->show_output(CUDA_SUCCESS);
  session->pace(stream);
  std::lock_guard lock(session->channel().lock());
  if (!session->all_there(args) || !session->bind(context)) return session->lost();
  protocol::Producer& producer = session->channel().producer();
  std::byte* place =
      protocol::begin_record(&producer, static_cast<uint16_t>(Op::kLaunch), args, args.param_bytes);
  if (place == nullptr) return session->lost();
  if (buffer != nullptr) {
    std::memcpy(place, buffer, bytes);
  } else if (params != nullptr) {
    shim::pack_params(place, kernel, params);
  }
  session->stats().record(Op::kLaunch, false);
  session->note_work(context, stream, producer.commit());
  return CUDA_SUCCESS;
}

// Attributes that change nothing for the result are accepted; what would, and is not served, is
// refused.
CUresult check_attributes(const CUlaunchConfig& config, Shape* shape) {
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& entry = config.attrs[i];
    switch (entry.id) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:  // a hint to the cache
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:  // the regular size is always allowed
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:  // which fences may be weaker; none need be
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        break;  // allows overlap, demands none
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = entry.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        shape->cluster = cluster_size(entry.value);
        break;
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                        void** params, void** extra) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return launch(function, shape, stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                   void** params) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, true};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return launch(function, shape, stream, params, nullptr, {&attribute, 1});
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** params,
                          void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Shape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
              {config->blockDimX, config->blockDimY, config->blockDimZ},
              config->sharedMemBytes};
  if (CUresult r = check_attributes(*config, &shape); r != CUDA_SUCCESS) {
    if (r == CUDA_ERROR_NOT_SUPPORTED) {
      log_once("cuLaunchKernelEx", LogLevel::kWarn,
               "cuLaunchKernelEx: a launch attribute is not supported");
    }
    return r;
  }
  return launch(function, shape, config->hStream == nullptr ? default_stream() : config->hStream,
                params, extra, {config->attrs, config->numAttrs});
}

}  // namespace vgpu::driver
