// Nodes of graphs as commands.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/graph_work.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "api/callback_scope.h"
#include "softgpu/api/driver.h"
#include "softgpu/api/launch_object.h"
#include "softgpu/api/memory_operation.h"
#include "softgpu/api/transfer_rect.h"
#include "softgpu/exec/faults.h"

namespace vgpu::softgpu {
namespace {

using graph::Step;

void submit_command(Submission to, std::unique_ptr<Command> command) {
  command->waits = std::move(to.waits);
  command->record = std::move(to.record);
  to.context->device().management().submit(*to.queue, std::move(command));
}

void submit_run(Submission to, CommandKind kind, std::function<void()> work) {
  auto command = std::make_unique<Command>();
  command->kind = kind;
  command->work = std::move(work);
  submit_command(std::move(to), std::move(command));
}

// Memory may have gone since: then it is as if a kernel had touched it.
void submit_checked(Submission to, std::function<CUresult()> work) {
  Context* const context = to.context;
  std::shared_ptr<Channel> channel = *to.channel;
  submit_run(std::move(to), CommandKind::kCopy, [context, channel, work = std::move(work)] {
    if (work() != CUDA_SUCCESS)
      context->device().management().fail(channel.get(), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

CUresult make(Context& context, const graph::KernelPayload& kernel, bool node_priority,
              GraphWork* work) {
  auto launch = std::make_shared<Launch>();
  size_t bytes = kernel.packed.size();
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(kernel.packed.data()),
                   CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const CUresult r = prepare_kernel(context, kernel, nullptr, extra, true, launch.get());
  int priority = 0;
  if (node_priority && kernel.attributes.priority(&priority))
    launch->shape.priority = std::clamp(priority, kPriorityGreatest, kPriorityLeast);
  work->submit = [launch](Submission to) {
    submit_launch(*launch, *to.channel, *to.queue, to.priority, to.sms, std::move(to.waits),
                  std::move(to.record));
  };
  return r;
}

CUresult make(Context& context, const graph::CopyPayload& copy, bool, GraphWork* work) {
  RectCopy rect;
  CUresult r = to_rect(&copy.params, INT_MAX, &rect);
  if (r == CUDA_SUCCESS) r = check_rect(context, rect);
  work->submit = [rect](Submission to) {
    Context* const owner = to.context;
    submit_checked(std::move(to), [owner, rect] { return copy_rect_now(*owner, rect); });
  };
  return r;
}

CUresult fill_rows(Context& context, const CUDA_MEMSET_NODE_PARAMS_v2& fill) {
  if (const CUresult r = check_fill_node(context, fill); r != CUDA_SUCCESS) return r;
  const bool filled = runs_without_fault([&fill] {
    for (size_t y = 0; y < fill.height; ++y)
      fill_now(fill.dst + y * fill.pitch, fill.value, fill.elementSize, fill.width);
  });
  return filled ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

CUresult make(Context& context, const graph::FillPayload& fill, bool, GraphWork* work) {
  work->submit = [params = fill.params](Submission to) {
    Context* const owner = to.context;
    submit_checked(std::move(to), [owner, params] { return fill_rows(*owner, params); });
  };
  return check_fill_node(context, fill.params);
}

CUresult make(Context&, const graph::HostPayload& host, bool, GraphWork* work) {
  work->submit = [params = host.params](Submission to) {
    submit_run(std::move(to), CommandKind::kHost, [params] {
      const HostFunctionScope scope;
      params.fn(params.userData);
    });
  };
  return CUDA_SUCCESS;
}

CUresult make(Context& context, const graph::OperationsPayload& payload, bool, GraphWork* work) {
  std::vector<StreamMemoryOperation> operations;
  const CUresult r = read_operations(context, static_cast<unsigned>(payload.operations.size()),
                                     payload.operations.data(), &operations);
  std::erase_if(operations, [](const StreamMemoryOperation& operation) {
    return operation.operation == MemoryOperation::kNone;
  });
  if (operations.empty()) return r;
  work->submit = [operations](Submission to) {
    for (const StreamMemoryOperation& operation : operations) {
      Submission part = to;
      if (&operation != &operations.front()) part.waits.clear();
      if (&operation != &operations.back()) part.record = nullptr;
      submit_command(std::move(part), memory_command(operation));
    }
  };
  return r;
}

CUresult make(Context&, const graph::ConditionalPayload& payload, bool, GraphWork* work) {
  work->conditional = payload.conditional;
  work->condition = Driver::instance().conditions.find(payload.conditional->handle);
  work->type = payload.type;
  return work->condition == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

template <typename Other>
CUresult make(Context&, const Other&, bool, GraphWork*) {
  return CUDA_SUCCESS;
}

}  // namespace

void submit_marker(Submission to) { submit_command(std::move(to), std::make_unique<Command>()); }

void submit_graph_work(Submission to, std::function<void()> work) {
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kGraph;
  command->always = true;  // others wait for what it leads to
  command->work = std::move(work);
  submit_command(std::move(to), std::move(command));
}

CUresult prepare_kernel(Context& context, const graph::KernelPayload& kernel, void** params,
                        void** extra, bool complete, Launch* launch) {
  const CUDA_KERNEL_NODE_PARAMS_v2& p = kernel.params;
  LaunchShape shape;
  shape.grid = {p.gridDimX, p.gridDimY, p.gridDimZ};
  shape.block = {p.blockDimX, p.blockDimY, p.blockDimZ};
  shape.shared_bytes = p.sharedMemBytes;
  shape.cooperative = kernel.attributes.cooperative();
  shape.cluster = kernel.attributes.cluster();
  shape.cluster_later = !complete;
  const CUfunction handle = p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern);
  return prepare_launch(context, handle, shape, params, extra, launch);
}

CUresult check_fill_node(Context& context, const CUDA_MEMSET_NODE_PARAMS_v2& fill) {
  const unsigned size = fill.elementSize;
  if (size != 1 && size != 2 && size != 4) return CUDA_ERROR_INVALID_VALUE;
  return check_fill_rect(context, fill.dst, fill.pitch, size, fill.width, fill.height);
}

CUresult make_work(Context& context, const graph::Step& step, bool node_priority,
                   std::shared_ptr<const GraphWork>* work) {
  auto made = std::make_shared<GraphWork>();
  const graph::Payload* payload = step.work();
  CUresult result = CUDA_SUCCESS;
  if (payload != nullptr) {
    if (const auto* event = std::get_if<graph::EventPayload>(payload)) {
      const bool records = step.node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
      std::shared_ptr<Event>& place = records ? made->recorded : made->awaited;
      place = Driver::instance().events.find(event->event);
      if (place == nullptr) return CUDA_ERROR_INVALID_VALUE;
    } else {
      result = std::visit(
          [&](const auto& each) { return make(context, each, node_priority, made.get()); },
          *payload);
    }
  }
  *work = std::move(made);
  return result;
}

}  // namespace vgpu::softgpu
