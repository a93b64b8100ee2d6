// Checking, packing and submitting launches.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/launch_object.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "softgpu/api/attributes.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/function_attributes.h"
#include "softgpu/api/profile.h"

namespace vgpu::softgpu {
namespace {

bool dimensions_valid(const LaunchShape& shape) {
  if (shape.blocks() == 0 || shape.threads() == 0) return false;
  if (shape.grid.x > INT32_MAX || shape.grid.y > 65535 || shape.grid.z > 65535) return false;
  return shape.block.x <= 1024 && shape.block.y <= 1024 && shape.block.z <= 64 &&
         shape.threads() <= static_cast<uint64_t>(kThreadsPerBlock);
}

CUresult settle_cluster(const Function& function, const DeviceConfig& config, LaunchShape* shape) {
  if (!shape->cluster.named() && !demands_cluster(*function.info, *function.settings))
    return CUDA_SUCCESS;
  ClusterRules rules = kernel_cluster_rules(*function.info, *function.settings, config);
  if (shape->cluster_later) rules.must_be_set = false;
  const ClusterSize asked = shape->cluster;
  return choose_cluster(rules, {shape->grid.x, shape->grid.y, shape->grid.z}, asked,
                        &shape->cluster);
}

// Whether all blocks of a cooperative grid can be resident on so many SMs.
bool all_fit(const Function& function, const CapabilityLimits& limits, const LaunchShape& shape,
             uint32_t sms) {
  const int resident =
      blocks_per_sm(*function.info, limits, static_cast<int>(shape.threads()), shape.shared_bytes);
  const uint64_t unit = shape.cluster.named() ? shape.cluster.blocks() : 1;
  return shape.blocks() <= active_clusters(resident, static_cast<int>(sms), unit) * unit;
}

// Settles the cluster too.
CUresult check_shape(const Function& function, const Context& context, LaunchShape* settled) {
  LaunchShape& shape = *settled;
  const DeviceConfig& config = context.device().config();
  const KernelInfo& info = *function.info;
  if (!dimensions_valid(shape)) return CUDA_ERROR_INVALID_VALUE;
  const uint32_t* const required = info.required_threads;
  if (required[0] != 0 &&
      (shape.block.x != required[0] || shape.block.y != std::max(required[1], 1u) ||
       shape.block.z != std::max(required[2], 1u))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (shape.threads() > static_cast<uint64_t>(max_threads(info)))
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (shape.shared_bytes > static_cast<unsigned>(dynamic_shared_max(info, *function.settings))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult cluster = settle_cluster(function, config, &shape);
  if (cluster != CUDA_SUCCESS || !shape.cooperative) return cluster;
  return all_fit(function, config.limits, shape, sm_count(context, shape.sms))
             ? CUDA_SUCCESS
             : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

// The SMs of a launch: those of its stream. A cooperative grid of a graph, which was checked
// without knowing the stream, has all of its context's where it would never end on fewer.
SmSet places_of(const Launch& launch, const SmSet& sms) {
  const SmSet& all = launch.context->sms;
  if (sms == nullptr) return all;
  Device& device = launch.context->device();
  const bool fits = !launch.shape.cooperative ||
                    all_fit(*launch.function, device.config().limits, launch.shape, sms->count());
  return fits && sms->any_below(device.running_sms()) ? sms : all;
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

std::unique_ptr<Grid> make_grid(const Launch& launch, Channel* channel, int priority,
                                const SmSet& sms) {
  Context& context = *launch.context;
  const LaunchShape& shape = launch.shape;
  static std::atomic<uint64_t> next_grid{1};
  auto grid = std::make_unique<Grid>();
  grid->kernel = launch.kernel.get();
  grid->param_bytes = launch.packed;
  grid->blocks = shape.blocks();
  grid->remaining.store(grid->blocks, std::memory_order_relaxed);
  grid->priority = shape.priority == INT_MAX ? priority : shape.priority;
  grid->channel = channel;
  grid->sms = places_of(launch, sms);
  grid->distributor = &context.device().distributor();
  grid->management = &context.device().management();
  grid->host = launch.module;
  grid->params.grid = shape.grid;
  grid->params.block = shape.block;
  if (shape.cluster.named()) {
    const auto& axis = shape.cluster.axis;
    grid->params.cluster = {axis[0], axis[1], axis[2]};
    grid->unit = grid->params.cluster_blocks();
  }
  grid->params.dynamic_shared_bytes = shape.shared_bytes;
  grid->params.params = grid->param_bytes.data();
  grid->params.grid_id = next_grid.fetch_add(1, std::memory_order_relaxed);
  grid->params.stop = &channel->stop;
  grid->params.services = &context.output();
  grid->params.owner = grid.get();
  grid->params.sm_count = context.device().config().sms;
  grid->params.stack_limit = static_cast<uint32_t>(context.limits[CU_LIMIT_STACK_SIZE].load());
  if (shape.cooperative) {
    grid->barrier_word = std::make_unique<uint32_t[]>(kBarrierWords);
    grid->params.cooperative_workspace = reinterpret_cast<uint64_t>(grid->barrier_word.get());
  }
  return grid;
}

size_t parameter_bytes(const KernelInfo& info) { return std::max<size_t>(info.param_bytes, 8); }

CUresult pack_params(const KernelInfo& info, void** params, void** extra,
                     std::vector<uint8_t>* packed) {
  packed->assign(parameter_bytes(info), 0);
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
    const ParamInfo& last = info.params.back();
    if (bytes < last.offset + last.bytes) return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes != 0) std::memcpy(packed->data(), buffer, std::min(bytes, packed->size()));
  return CUDA_SUCCESS;
}

CUresult begin_compiling(Launch* launch) {
  Diagnostic diagnostic;
  launch->kernel = launch->module->prepare(launch->function->index, launch->shape.block,
                                           launch->shape.cluster.named(), &diagnostic);
  if (launch->kernel == nullptr) {
    VGPU_LOG_ERROR("kernel %s, PTX line %d: %s", launch->function->info->name.c_str(),
                   diagnostic.line, diagnostic.text.c_str());
    return CUDA_ERROR_INVALID_PTX;
  }
  Device& device = launch->context->device();
  const SmSet& sms = launch->context->sms;
  const bool runs = device.ensure_sms() && (sms == nullptr || sms->any_below(device.running_sms()));
  return runs ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

uint32_t sm_count(const Context& context, const SmSet& sms) {
  if (sms != nullptr) return sms->count();
  return context.sms != nullptr ? context.sms->count() : context.device().config().sms;
}

CUresult prepare_launch(Context& context, CUfunction handle, const LaunchShape& shape,
                        void** params, void** extra, Launch* launch) {
  launch->context = &context;
  const CUresult found = find_function(context, handle, &launch->function);
  if (found != CUDA_SUCCESS) return found;
  launch->module = launch->function->module.lock();
  if (launch->module == nullptr || launch->module->context() != &context)
    return CUDA_ERROR_INVALID_HANDLE;
  launch->shape = shape;
  CUresult checked = check_shape(*launch->function, context, &launch->shape);
  if (checked == CUDA_SUCCESS)
    checked = pack_params(*launch->function->info, params, extra, &launch->packed);
  return checked == CUDA_SUCCESS ? begin_compiling(launch) : checked;
}

CUresult prepare_child(std::shared_ptr<Module> module, uint32_t index, const LaunchShape& shape,
                       Launch* launch) {
  launch->context = module->context();
  launch->function = module->functions()[index];
  launch->module = std::move(module);
  launch->shape = shape;
  const CUresult checked = check_shape(*launch->function, *launch->context, &launch->shape);
  if (checked != CUDA_SUCCESS) return checked;
  launch->packed.assign(parameter_bytes(*launch->function->info), 0);
  return begin_compiling(launch);
}

std::unique_ptr<Command> make_command(const Launch& launch, Channel* channel, int priority,
                                      const SmSet& sms) {
  Device& device = launch.context->device();
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kGrid;
  command->grid = make_grid(launch, channel, priority, sms);
  const LaunchShape& shape = launch.shape;
  command->grid->profile = start_profile(*launch.function->info, *launch.kernel, shape.grid,
                                         shape.block, shape.shared_bytes, device.config());
  if (command->grid->profile != nullptr)
    command->grid->params.profile = &command->grid->profile->counters;
  if (!launch.kernel->readiness.ready()) {  // the stream waits for its code, and nobody else does
    auto compiled = std::make_shared<EventPoint>();
    command->waits.push_back(compiled);
    launch.kernel->readiness.then([&device, compiled] { device.management().reach(*compiled); });
  }
  return command;
}

void submit_launch(const Launch& launch, const std::shared_ptr<Channel>& channel,
                   const std::shared_ptr<StreamQueue>& queue, int priority, const SmSet& sms,
                   std::vector<std::shared_ptr<EventPoint>> waits,
                   std::shared_ptr<EventPoint> record) {
  std::unique_ptr<Command> command = make_command(launch, channel.get(), priority, sms);
  std::move(waits.begin(), waits.end(), std::back_inserter(command->waits));
  command->record = std::move(record);
  launch.context->device().management().submit(queue, std::move(command));
}

}  // namespace vgpu::softgpu
