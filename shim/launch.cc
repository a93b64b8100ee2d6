// Launches: parameters are packed with the layout that the module came with.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>
#include <mutex>

#include "api/default_stream.h"
#include "base/log.h"
#include "driver_functions.h"
#include "shim/device.h"
#include "shim/module_table.h"
#include "shim/stream_table.h"

namespace vgpu::driver {

using shim::attribute;
using shim::Context;
using shim::enter;
using shim::find_any_stream;
using shim::find_function;
using shim::find_stream;
using shim::Function;
using shim::id_of;
using shim::Kernel;
using shim::Param;
using shim::Session;
using shim::StreamRef;

namespace {

struct Shape {
  uint32_t grid[3], block[3], shared_bytes;
  bool cooperative = false;
};

// Limits that never change, read once from the snapshot.
struct ShapeLimits {
  uint32_t grid[3], block[3], threads;
  uint64_t shared;
};

const ShapeLimits& limits_of(Session& session, CUdevice device) {
  static const ShapeLimits limits = [&] {
    const protocol::DeviceSnapshot& snapshot = *session.device(device);
    const auto get = [&](CUdevice_attribute which) {
      return static_cast<uint32_t>(attribute(snapshot, which));
    };
    return ShapeLimits{
        {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
         get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
        {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X), get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
         get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
        get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)};
  }();
  return limits;
}

CUresult check_shape(const ShapeLimits& limits, const Kernel& kernel, const Shape& shape) {
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] - 1 >= limits.grid[i] || shape.block[i] - 1 >= limits.block[i])
      return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (threads > limits.threads) return CUDA_ERROR_INVALID_VALUE;
  const auto kernel_threads =
      static_cast<uint32_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (kernel_threads != 0 && threads > kernel_threads) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape.shared_bytes != 0) {
    const auto fixed = static_cast<uint64_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
    const auto opted =
        static_cast<uint64_t>(kernel.attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
    const uint64_t most = limits.shared > fixed + opted ? limits.shared : fixed + opted;
    if (fixed + shape.shared_bytes > most) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

// All blocks of a cooperative grid must be resident at once.
CUresult check_cooperative(CUfunction function, const Shape& shape) {
  int per_multiprocessor = 0, multiprocessors = 0;
  CUdevice device = 0;
  const int threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
  CUresult r = driver::cuCtxGetDevice(&device);
  if (r == CUDA_SUCCESS) {
    r = driver::cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                     device);
  }
  if (r == CUDA_SUCCESS) {
    r = driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, function, threads,
                                                            shape.shared_bytes);
  }
  if (r != CUDA_SUCCESS) return r;
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  const auto most = static_cast<uint64_t>(per_multiprocessor) * multiprocessors;
  return blocks > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

// The packed buffer that `extra` names.
CUresult read_extra(void** extra, const void** buffer, size_t* bytes) {
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (extra[i + 1] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *bytes = *static_cast<const size_t*>(extra[i + 1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  if (*buffer == nullptr && *bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

void pack(std::byte* to, const Kernel& kernel, void** params) {
  uint32_t end = 0;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Param param = kernel.params[i];
    if (param.offset > end) std::memset(to + end, 0, param.offset - end);
    if (param.bytes == 8) {
      std::memcpy(to + param.offset, params[i], 8);
    } else if (param.bytes == 4) {
      std::memcpy(to + param.offset, params[i], 4);
    } else {
      std::memcpy(to + param.offset, params[i], param.bytes);
    }
    end = param.offset + param.bytes;
  }
}

CUresult launch(CUfunction handle, const Shape& shape, CUstream stream_handle, void** params,
                void** extra) {
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
  const Kernel& kernel = *function->kernel;
  if (CUresult r = check_shape(limits_of(*session, context->device), kernel, shape);
      r != CUDA_SUCCESS)
    return r;
  if (shape.cooperative) {
    if (CUresult r = check_cooperative(handle, shape); r != CUDA_SUCCESS) return r;
  }
  const void* buffer = nullptr;
  size_t bytes = kernel.param_bytes;
  if (extra != nullptr) {
    if (params != nullptr) return CUDA_ERROR_INVALID_VALUE;
    bytes = 0;
    if (CUresult r = read_extra(extra, &buffer, &bytes); r != CUDA_SUCCESS) return r;
    if (bytes < kernel.param_bytes || bytes > protocol::kRecordBytesMax / 2)
      return CUDA_ERROR_INVALID_VALUE;
  } else if (params == nullptr && !kernel.params.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  wire::LaunchArgs args;
  args.module = function->module;
  args.stream = stream.id;
  args.index = function->index;
  std::memcpy(args.grid, shape.grid, sizeof(args.grid));
  std::memcpy(args.block, shape.block, sizeof(args.block));
  args.shared_bytes = shape.shared_bytes;
  args.flags = shape.cooperative ? protocol::kLaunchCooperative : 0;
  args.param_bytes = static_cast<uint32_t>(bytes);
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
    pack(place, kernel, params);
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
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        break;  // allows overlap, demands none
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = entry.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (uint64_t{entry.value.clusterDim.x} * entry.value.clusterDim.y *
                entry.value.clusterDim.z >
            1) {
          return CUDA_ERROR_NOT_SUPPORTED;
        }
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
  return launch(function, shape, stream, params, nullptr);
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
                params, extra);
}

}  // namespace vgpu::driver
