// Kernel launches.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>

#include "api/default_stream.h"
#include "base/log.h"
#include "driver_functions.h"
#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/profile.h"

namespace vgpu::driver {
namespace {

using softgpu::Context;
using softgpu::Dim3;
using softgpu::Function;
using softgpu::Grid;
using softgpu::KernelInfo;

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  unsigned shared_bytes = 0;
  bool cooperative = false;
  int priority = INT_MAX;  // INT_MAX = the stream's

  uint64_t blocks() const { return uint64_t{grid.x} * grid.y * grid.z; }
  uint64_t threads() const { return uint64_t{block.x} * block.y * block.z; }
};

bool dimensions_valid(const LaunchShape& shape) {
  if (shape.blocks() == 0 || shape.threads() == 0) return false;
  if (shape.grid.x > INT32_MAX || shape.grid.y > 65535 || shape.grid.z > 65535) return false;
  return shape.block.x <= 1024 && shape.block.y <= 1024 && shape.block.z <= 64 &&
         shape.threads() <= static_cast<uint64_t>(softgpu::kThreadsPerBlock);
}

CUresult check_shape(const LaunchShape& shape, const Function& function,
                     const softgpu::DeviceConfig& config) {
  const KernelInfo& info = *function.info;
  if (!dimensions_valid(shape)) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t* const required = info.required_threads;
  if (required[0] != 0 &&
      (shape.block.x != required[0] || shape.block.y != std::max(required[1], 1u) ||
       shape.block.z != std::max(required[2], 1u))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.threads() > static_cast<uint64_t>(softgpu::max_threads(info)))
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape.shared_bytes >
      static_cast<unsigned>(softgpu::dynamic_shared_max(info, *function.settings))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!shape.cooperative) return CUDA_SUCCESS;
  const int resident = softgpu::blocks_per_sm(
      info, config.limits, static_cast<int>(shape.threads()), shape.shared_bytes);
  const uint64_t most = static_cast<uint64_t>(resident) * config.sms;
  return shape.blocks() > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

// The packed buffer of an `extra` launch.
CUresult read_extra(void** extra, const void** buffer, size_t* bytes) {
  *buffer = nullptr;
  *bytes = 0;
  for (void** item = extra; *item != CU_LAUNCH_PARAM_END; item += 2) {
    if (*item == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      *buffer = item[1];
    } else if (*item == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      if (item[1] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *bytes = *static_cast<size_t*>(item[1]);
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return *buffer == nullptr && *bytes != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult pack_params(const KernelInfo& info, void** params, void** extra,
                     std::vector<uint8_t>* packed) {
  packed->assign(std::max<size_t>(info.param_bytes, 8), 0);
  if (params != nullptr && extra != nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params != nullptr) {
    for (size_t i = 0; i < info.params.size(); ++i) {
      if (params[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(packed->data() + info.params[i].offset, params[i], info.params[i].bytes);
    }
    return CUDA_SUCCESS;
  }
  if (extra == nullptr) return info.params.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  const void* buffer = nullptr;
  size_t bytes = 0;
  if (const CUresult result = read_extra(extra, &buffer, &bytes); result != CUDA_SUCCESS)
    return result;
  if (!info.params.empty()) {
    const softgpu::ParamInfo& last = info.params.back();
    if (bytes < last.offset + last.bytes) return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes != 0) std::memcpy(packed->data(), buffer, std::min(bytes, packed->size()));
  return CUDA_SUCCESS;
}

std::unique_ptr<Grid> make_grid(Context& context, const softgpu::Stream& stream,
                                const LaunchShape& shape, const softgpu::CompiledKernel* kernel,
                                std::vector<uint8_t> packed) {
  static std::atomic<uint64_t> next_grid{1};
  auto grid = std::make_unique<Grid>();
  grid->kernel = kernel;
  grid->param_bytes = std::move(packed);
  grid->blocks = shape.blocks();
  grid->remaining.store(grid->blocks, std::memory_order_relaxed);
  grid->priority = shape.priority == INT_MAX ? stream.priority : shape.priority;
  grid->channel = stream.channel.get();
  grid->params.grid = shape.grid;
  grid->params.block = shape.block;
  grid->params.dynamic_shared_bytes = shape.shared_bytes;
  grid->params.params = grid->param_bytes.data();
  grid->params.grid_id = next_grid.fetch_add(1, std::memory_order_relaxed);
  grid->params.stop = &stream.channel->stop;
  grid->params.services = &context.output();
  grid->params.sm_count = context.device().config().sms;
  grid->params.stack_limit = static_cast<uint32_t>(context.limits[CU_LIMIT_STACK_SIZE].load());
  if (shape.cooperative) {
    grid->barrier_word = std::make_unique<uint32_t[]>(softgpu::kBarrierWords);
    grid->params.cooperative_workspace = reinterpret_cast<uint64_t>(grid->barrier_word.get());
  }
  return grid;
}

CUresult launch(CUfunction handle, const LaunchShape& shape, CUstream stream_handle, void** params,
                void** extra) {
  Context* context = nullptr;
  if (const CUresult result = softgpu::enter(&context); result != CUDA_SUCCESS) return result;
  const std::shared_ptr<softgpu::Stream> stream = softgpu::find_stream(*context, stream_handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Function> function = softgpu::find_function(*stream->context, handle);
  const std::shared_ptr<softgpu::Module> module =
      function == nullptr ? nullptr : function->module.lock();
  if (module == nullptr || module->context() != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->context != context) {
    // A CUkernel runs in the stream's context, a CUfunction in its own, which must be current.
    if (function->handle == handle) return CUDA_ERROR_INVALID_HANDLE;
    context = stream->context;
    if (const CUresult sticky = context->sticky(); sticky != CUDA_SUCCESS) return sticky;
  }
  softgpu::Device& device = context->device();
  if (const CUresult result = check_shape(shape, *function, device.config());
      result != CUDA_SUCCESS)
    return result;
  std::vector<uint8_t> packed;
  if (const CUresult result = pack_params(*function->info, params, extra, &packed);
      result != CUDA_SUCCESS) {
    return result;
  }
  softgpu::Diagnostic diagnostic;
  const std::shared_ptr<softgpu::CompiledKernel> kernel =
      module->prepare(function->index, shape.block, &diagnostic);
  if (kernel == nullptr) {
    VGPU_LOG_ERROR("kernel %s, PTX line %d: %s", function->info->name.c_str(), diagnostic.line,
                   diagnostic.text.c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  if (!device.ensure_sms()) return CUDA_ERROR_OUT_OF_MEMORY;
  context->output().flush();
  auto command = std::make_unique<softgpu::Command>();
  command->kind = softgpu::CommandKind::kGrid;
  command->grid = make_grid(*context, *stream, shape, kernel.get(), std::move(packed));
  command->grid->keep_alive = module;
  command->grid->profile = softgpu::start_profile(*function->info, *kernel, shape.grid, shape.block,
                                                  shape.shared_bytes, device.config());
  if (command->grid->profile != nullptr)
    command->grid->params.profile = &command->grid->profile->counters;
  std::shared_ptr<softgpu::EventPoint> compiled;
  if (!kernel->readiness.ready()) {  // the stream waits for its code, and nobody else does
    compiled = std::make_shared<softgpu::EventPoint>();
    command->waits.push_back(compiled);
  }
  device.management().submit(stream->queue, std::move(command));
  if (compiled != nullptr)
    kernel->readiness.then([&device, compiled] { device.management().reach(*compiled); });
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
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:  // full serialisation is always
                                                                   // allowed
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        shape->cooperative = attribute.value.cooperative != 0;
        break;
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        shape->priority = std::clamp(attribute.value.priority, softgpu::kPriorityGreatest,
                                     softgpu::kPriorityLeast);
        break;
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        if (attribute.value.clusterDim.x != 1 || attribute.value.clusterDim.y != 1 ||
            attribute.value.clusterDim.z != 1) {
          return not_served("cuLaunchKernelEx with clusters");
        }
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
  return launch(function, shape, stream, params, nullptr);
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
  return launch(function, shape, stream, params, extra);
}

}  // namespace vgpu::driver
