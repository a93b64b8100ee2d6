// What the worker is told of each kind of node.
// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_commands.h"

#include <climits>
#include <cstring>

#include "op.h"
#include "shim/kernel_use.h"
#include "shim/memory_operation.h"
#include "shim/module_table.h"

namespace vgpu::shim {
namespace {

struct Target {
  Session& session;
  Context* context;
  const graph::Step& step;
  const std::vector<graph::Region>& regions;
  uint32_t number;
  GraphStaging& staging;
  bool node_priority;
  protocol::GraphNodeHeader* header;
  std::vector<std::byte>* command;
  std::vector<GraphFunction>* functions;

  // Names a function of the graph's; 0: there is no memory for it.
  uint64_t name(CUhostFn called, void* user) const {
    HostFunction function;
    function.function = called;
    function.user = user;
    function.context = context;
    function.repeated = true;
    const uint64_t id = session.host_calls().add(&session, function);
    if (id != 0) functions->push_back({number, id});
    return id;
  }

  template <typename Args>
  void put(Op op, const Args& args, std::span<const std::byte> behind = {}) {
    header->op = static_cast<uint16_t>(op);
    const size_t at = command->size();
    command->resize(at + sizeof(args) + behind.size());
    std::memcpy(command->data() + at, &args, sizeof(args));
    if (!behind.empty())
      std::memcpy(command->data() + at + sizeof(args), behind.data(), behind.size());
  }
};

CUresult write(Target to, const graph::KernelPayload& kernel) {
  Function* function = nullptr;
  if (CUresult r = find_node_function(to.session, to.context, kernel, &function); r != CUDA_SUCCESS)
    return r;
  const Shape shape = shape_of(kernel);
  Kernel* used = nullptr;
  if (CUresult r = use_kernel(to.session, to.context, *function, &used); r != CUDA_SUCCESS)
    return r;
  // Attributes may have been set since the node was made.
  ClusterSize cluster;
  if (CUresult r = check_cluster(to.session, to.context->device, *used, shape, &cluster);
      r != CUDA_SUCCESS)
    return r;
  wire::LaunchArgs args;
  args.module = function->module;
  args.index = function->index;
  std::memcpy(args.grid, shape.grid, sizeof(args.grid));
  std::memcpy(args.block, shape.block, sizeof(args.block));
  args.shared_bytes = shape.shared_bytes;
  args.flags = shape.cooperative ? protocol::kLaunchCooperative : 0;
  args.param_bytes = static_cast<uint32_t>(kernel.packed.size());
  args.cluster = pack_cluster(shape.cluster);
  int priority = 0;
  if (to.node_priority && kernel.attributes.priority(&priority)) {
    args.priority = priority;
    to.header->flags = protocol::kGraphNodePriority;
  }
  to.put(Op::kLaunch, args, kernel.packed);
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::CopyPayload& copy) {
  RectCopy rect;
  const PlaceScope scope{to.context, to.context};
  Place target, source;
  CUresult r = to_rect(&copy.params, pitch_max(to.session, *to.context), &rect);
  if (r == CUDA_SUCCESS) r = locate(to.session, scope, rect, rect.to, &target);
  if (r == CUDA_SUCCESS) r = locate(to.session, scope, rect, rect.from, &source);
  if (r != CUDA_SUCCESS) return r;
  StagedCopy* const out = to.staging.redirect(to.number, rect, rect.to, &target);
  StagedCopy* const in = to.staging.redirect(to.number, rect, rect.from, &source);
  const wire::RectCopyArgs args = copy_args(target.end, source.end, rect);
  if (in == nullptr && out == nullptr) {
    to.put(Op::kRectCopy, args);
    return CUDA_SUCCESS;
  }
  protocol::GraphCopyCalls calls;
  if (in != nullptr && (calls.before = to.name(StagedCopy::run, in)) == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (out != nullptr && (calls.after = to.name(StagedCopy::run, out)) == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  to.put(Op::kRectCopy, args, std::as_bytes(std::span(&calls, 1)));
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::FillPayload& fill) {
  const CUDA_MEMSET_NODE_PARAMS_v2& params = fill.params;
  if (CUresult r = check_fill(to.session, params); r != CUDA_SUCCESS) return r;
  wire::RectFillArgs args;
  args.destination = params.dst;
  args.pitch = params.height > 1 ? params.pitch : 0;
  args.count = params.width;
  args.height = params.height;
  args.bytes = params.width * params.elementSize * params.height;
  args.value = params.value;
  args.width = params.elementSize;
  to.put(Op::kRectFill, args);
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::EventPayload& event) {
  if (to.session.events.find(id_of(event.event)) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (to.step.node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    wire::EventRecordArgs args;
    args.event = id_of(event.event);
    to.put(Op::kEventRecord, args);
  } else {
    wire::StreamWaitEventArgs args;
    args.event = id_of(event.event);
    to.put(Op::kStreamWaitEvent, args);
  }
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::OperationsPayload& payload) {
  StreamMemoryOperation operations[kStreamMemoryOperationsMax];
  const auto count = static_cast<unsigned>(payload.operations.size());
  if (CUresult r =
          read_operations(to.session, *to.context, count, payload.operations.data(), operations);
      r != CUDA_SUCCESS)
    return r;
  for (unsigned i = 0; i < count; ++i) {
    if (operations[i].operation != MemoryOperation::kNone)
      to.put(Op::kStreamMemory, operation_args(operations[i]));
  }
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::HostPayload& host) {
  wire::HostFunctionArgs args;
  args.call = to.name(host.params.fn, host.params.userData);
  if (args.call == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  to.put(Op::kHostFunction, args);
  return CUDA_SUCCESS;
}

CUresult write(Target to, const graph::ConditionalPayload& payload) {
  protocol::GraphConditionalNode node;
  node.handle = payload.conditional->handle;
  node.type = static_cast<uint32_t>(payload.type);
  node.bodies = static_cast<uint32_t>(to.step.bodies.size());
  std::vector<uint32_t> counts;
  for (const uint32_t body : to.step.bodies) {
    const graph::Region& region = to.regions[body];
    counts.push_back(region.end - region.first);
  }
  to.put(Op::kGraphConditional, node, std::as_bytes(std::span(counts)));
  return CUDA_SUCCESS;
}

CUresult write(const Target&, const graph::EmptyPayload&) { return CUDA_SUCCESS; }

template <typename Other>  // child graphs, which plans do not have
CUresult write(const Target&, const Other&) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

CUresult graph_command(Session& session, Context* context, const graph::Plan& plan, uint32_t number,
                       GraphStaging& staging, bool node_priority, protocol::GraphNodeHeader* header,
                       std::vector<std::byte>* command, std::vector<GraphFunction>* functions) {
  const graph::Step& step = plan.steps[number];
  const graph::Payload* work = step.work();
  if (work == nullptr) return CUDA_SUCCESS;
  const Target target{session, context,       step,   plan.regions, number,
                      staging, node_priority, header, command,      functions};
  return std::visit([&](const auto& payload) { return write(target, payload); }, *work);
}

CUresult find_node_function(Session& session, const Context* context,
                            const graph::KernelPayload& kernel, Function** function) {
  const auto& p = kernel.params;
  *function =
      find_function(session, p.func != nullptr ? p.func : reinterpret_cast<CUfunction>(p.kern));
  const bool usable =
      *function != nullptr && ((*function)->context == nullptr || (*function)->context == context);
  return usable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

Shape shape_of(const graph::KernelPayload& kernel) {
  const auto& p = kernel.params;
  return {{p.gridDimX, p.gridDimY, p.gridDimZ},
          {p.blockDimX, p.blockDimY, p.blockDimZ},
          p.sharedMemBytes,
          kernel.attributes.cooperative(),
          kernel.attributes.cluster()};
}

CUresult check_fill(Session& session, const CUDA_MEMSET_NODE_PARAMS_v2& fill) {
  const uint64_t width = fill.elementSize;
  const uint64_t pitch = fill.height > 1 ? fill.pitch : 0;
  if (width != 1 && width != 2 && width != 4) return CUDA_ERROR_INVALID_VALUE;
  uint64_t row = 0, last = 0, span = 0, bytes = 0;
  if (fill.dst % width != 0 || pitch % width != 0 || pitch > INT_MAX ||
      __builtin_mul_overflow(uint64_t{fill.width}, width, &row) ||
      (fill.height > 1 && pitch < row) ||
      __builtin_mul_overflow(uint64_t{fill.height} - 1, pitch, &last) ||
      __builtin_add_overflow(last, row, &span) ||
      __builtin_mul_overflow(row, uint64_t{fill.height}, &bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Allocation allocation;
  HostBlock block;
  if (session.memory().find(fill.dst, &allocation)) {
    const uint64_t left = allocation.bytes - (fill.dst - allocation.address);
    return span <= left ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (!session.host_memory().find(fill.dst, &block)) return CUDA_ERROR_INVALID_VALUE;
  if (span > block.bytes - (fill.dst - block.address)) return CUDA_ERROR_INVALID_VALUE;
  return block.in_place ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::shim
