// The driver's graph: one node for each of the guest's.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include "api/stream_memory.h"
#include "op.h"
#include "server/cluster.h"
#include "server/graph.h"
#include "server/host_calls.h"
#include "server/objects.h"
#include "server/session.h"

namespace vgpu::server {
namespace {

using Before = std::vector<CUgraphNode>;

CUDA_MEMSET_NODE_PARAMS fill_params(const wire::RectFillArgs& args) {
  CUDA_MEMSET_NODE_PARAMS params = {};
  params.dst = args.destination;
  params.pitch = args.pitch;
  params.value = args.value;
  params.elementSize = args.width;
  params.width = args.count;
  params.height = args.height;
  return params;
}

// Parameters of a launch with what they point to.
struct KernelParams {
  explicit KernelParams(const GraphNode& node) : bytes(node.params.size()) {
    extra[1] = const_cast<std::byte*>(node.params.data());
    params.func = node.function;
    params.gridDimX = node.launch.grid[0];
    params.gridDimY = node.launch.grid[1];
    params.gridDimZ = node.launch.grid[2];
    params.blockDimX = node.launch.block[0];
    params.blockDimY = node.launch.block[1];
    params.blockDimZ = node.launch.block[2];
    params.sharedMemBytes = node.launch.shared_bytes;
    params.extra = bytes == 0 ? nullptr : extra;
  }
  KernelParams(const KernelParams&) = delete;
  KernelParams& operator=(const KernelParams&) = delete;

  size_t bytes;
  void* extra[5] = {CU_LAUNCH_PARAM_BUFFER_POINTER, nullptr, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                    CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS params = {};
};

CUresult add_kernel(const DriverTable& driver, CUgraph graph, const Before& before,
                    const GraphNode& node, CUgraphNode* out) {
  const KernelParams kernel(node);
  CUresult result =
      driver.cuGraphAddKernelNode_v2(out, graph, before.data(), before.size(), &kernel.params);
  CUkernelNodeAttrValue value = {};
  if (result == CUDA_SUCCESS && node.launch.flags == protocol::kLaunchCooperative) {
    value.cooperative = 1;
    result = driver.cuGraphKernelNodeSetAttribute(*out, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
  }
  if (result == CUDA_SUCCESS && node.launch.cluster != 0) {
    value = cluster_value(node.launch.cluster);
    result =
        driver.cuGraphKernelNodeSetAttribute(*out, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value);
  }
  if (result == CUDA_SUCCESS && node.has_priority) {
    value = {};
    value.priority = node.launch.priority;
    result = driver.cuGraphKernelNodeSetAttribute(*out, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
  }
  return result;
}

CUresult add_operations(const DriverTable& driver, CUgraph graph, CUcontext context,
                        const Before& before, const GraphNode& node, CUgraphNode* out) {
  std::vector<CUstreamBatchMemOpParams> list;
  for (const wire::StreamMemoryArgs& args : node.operations) {
    const auto operation = static_cast<MemoryOperation>(args.operation);
    const bool wide =
        operation == MemoryOperation::kWait64 || operation == MemoryOperation::kWrite64;
    const bool waits =
        operation == MemoryOperation::kWait32 || operation == MemoryOperation::kWait64;
    list.push_back(waits ? wait_value(wide, args.address, args.value, args.condition)
                         : write_value(wide, args.address, args.value, 0));
  }
  const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, static_cast<unsigned>(list.size()),
                                                list.data(), 0};
  return driver.cuGraphAddBatchMemOpNode(out, graph, before.data(), before.size(), &params);
}

// The driver tells the guest, and the device waits for the end of its function.
CUresult add_function(const DriverTable& driver, CUgraph graph, CUcontext context,
                      const Before& before, const HostPoint& point, CUgraphNode* out) {
  CUDA_HOST_NODE_PARAMS host = {};
  host.fn = HostCalls::reached;
  host.userData = const_cast<HostPoint*>(&point);
  CUgraphNode told = nullptr;
  const CUresult r = driver.cuGraphAddHostNode(&told, graph, before.data(), before.size(), &host);
  if (r != CUDA_SUCCESS) return r;
  CUstreamBatchMemOpParams wait =
      wait_value(false, point.address, point.value, CU_STREAM_WAIT_VALUE_EQ);
  const CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context, 1, &wait, 0};
  return driver.cuGraphAddBatchMemOpNode(out, graph, &told, 1, &params);
}

// A copy between the guest's functions that fill and empty what it reads and writes.
CUresult add_copy(const DriverTable& driver, CUgraph graph, CUcontext context, Before before,
                  const GraphNode& node, CUgraphNode* out) {
  if (node.point != nullptr) {
    const CUresult r = add_function(driver, graph, context, before, *node.point, out);
    if (r != CUDA_SUCCESS) return r;
    before = {*out};
  }
  const CUresult r =
      driver.cuGraphAddMemcpyNode(out, graph, before.data(), before.size(), &node.box, context);
  if (r != CUDA_SUCCESS || node.after == nullptr) return r;
  return add_function(driver, graph, context, {*out}, *node.after, out);
}

CUresult add_node(const DriverTable& driver, CUgraph graph, const Context& context,
                  const Before& before, const GraphNode& node, CUgraphNode* out) {
  const CUgraphNode* first = before.data();
  const size_t count = before.size();
  switch (static_cast<Op>(node.op)) {
    case Op::kLaunch:
      return add_kernel(driver, graph, before, node, out);
    case Op::kRectCopy:
      return add_copy(driver, graph, context.handle, before, node, out);
    case Op::kRectFill: {
      const CUDA_MEMSET_NODE_PARAMS params = fill_params(node.fill);
      return driver.cuGraphAddMemsetNode(out, graph, first, count, &params, context.handle);
    }
    case Op::kEventRecord:
      return driver.cuGraphAddEventRecordNode(out, graph, first, count, node.event->handle);
    case Op::kStreamWaitEvent:
      return driver.cuGraphAddEventWaitNode(out, graph, first, count, node.event->handle);
    case Op::kHostFunction:
      return add_function(driver, graph, context.handle, before, *node.point, out);
    case Op::kStreamMemory:
      return add_operations(driver, graph, context.handle, before, node, out);
    default:
      return driver.cuGraphAddEmptyNode(out, graph, first, count);
  }
}

// *bodies: the driver's graphs of the node's bodies, behind those that are there.
CUresult add_conditional(const DriverTable& driver, CUgraph graph, CUcontext context,
                         const Before& before, const GraphNode& node, std::vector<CUgraph>* bodies,
                         CUgraphNode* out) {
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = node.conditional.handle;
  params.conditional.type = static_cast<CUgraphConditionalNodeType>(node.conditional.type);
  params.conditional.size = node.conditional.bodies;
  params.conditional.ctx = context;
  if (driver.cuGraphAddNode_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult r =
      driver.cuGraphAddNode_v2(out, graph, before.data(), nullptr, before.size(), &params);
  if (r != CUDA_SUCCESS) return r;
  const CUgraph* made = params.conditional.phGraph_out;
  bodies->insert(bodies->end(), made, made + node.conditional.bodies);
  return CUDA_SUCCESS;
}

// What was made of a source before goes, so that it can be made again.
CUresult clear(const DriverTable& driver, CUgraph graph) {
  size_t count = 0;
  CUresult result = driver.cuGraphGetNodes(graph, nullptr, &count);
  std::vector<CUgraphNode> nodes(count);
  if (result == CUDA_SUCCESS && count != 0)
    result = driver.cuGraphGetNodes(graph, nodes.data(), &count);
  for (CUgraphNode node : nodes) {
    if (result == CUDA_SUCCESS) result = driver.cuGraphDestroyNode(node);
  }
  return result;
}

CUresult add_nodes(const DriverTable& driver, const Graph& graph, NativeGraph* made) {
  std::vector<CUgraph> graphs{made->graph};  // by region
  Before before;
  made->nodes.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    before.clear();
    for (const uint32_t number : node.before) before.push_back(made->nodes[number]);
    CUgraphNode handle = nullptr;
    const CUgraph target = graphs[graph.region[i]];
    const CUresult r =
        node.op == static_cast<uint16_t>(Op::kGraphConditional)
            ? add_conditional(driver, target, graph.context->handle, before, node, &graphs, &handle)
            : add_node(driver, target, *graph.context, before, node, &handle);
    if (r != CUDA_SUCCESS) return r;
    made->nodes.push_back(handle);
    for (const auto& point : {node.point, node.after}) {
      if (point != nullptr) made->points.push_back(point);
    }
  }
  return CUDA_SUCCESS;
}

bool driver_has_all(const DriverTable& driver) {
  return driver.cuGraphCreate != nullptr && driver.cuGraphInstantiateWithFlags != nullptr &&
         driver.cuGraphAddKernelNode_v2 != nullptr && driver.cuGraphAddMemcpyNode != nullptr &&
         driver.cuGraphAddMemsetNode != nullptr && driver.cuGraphAddEventRecordNode != nullptr &&
         driver.cuGraphAddEventWaitNode != nullptr && driver.cuGraphAddEmptyNode != nullptr &&
         driver.cuGraphAddBatchMemOpNode != nullptr && driver.cuGraphAddHostNode != nullptr &&
         driver.cuGraphKernelNodeSetAttribute != nullptr && driver.cuGraphLaunch != nullptr &&
         driver.cuGraphExecDestroy != nullptr && driver.cuGraphDestroy != nullptr;
}

}  // namespace

void NativeGraph::end() {
  const Rundown::Use use(&context->use);
  if (use && exec != nullptr) (void)driver->cuGraphExecDestroy(exec);
  exec = nullptr;
}

NativeGraph::~NativeGraph() {
  end();
  // Those of a context that is gone went with it.
  const Rundown::Use use(&context->use);
  if (!use) return;
  if (graph != nullptr && source == nullptr) (void)driver->cuGraphDestroy(graph);
}

GraphSource::~GraphSource() {
  const Rundown::Use use(&context->use);
  if (use && graph != nullptr) (void)driver->cuGraphDestroy(graph);
}

CUresult build(const DriverTable& driver, const Graph& graph,
               std::shared_ptr<NativeGraph>* native) {
  if (!driver_has_all(driver)) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_shared<NativeGraph>(&driver, graph.context);
  std::unique_lock<std::mutex> alone;
  CUresult result = CUDA_SUCCESS;
  if (graph.source != nullptr) {
    alone = std::unique_lock(graph.source->building);
    made->source = graph.source;
    made->graph = graph.source->graph;
    result = clear(driver, made->graph);
  } else {
    result = driver.cuGraphCreate(&made->graph, 0);
  }
  if (result == CUDA_SUCCESS) result = add_nodes(driver, graph, made.get());
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphInstantiateWithFlags(&made->exec, made->graph, graph.flags);
  made->kernels = static_cast<uint32_t>(std::count_if(
      graph.nodes.begin(), graph.nodes.end(),
      [](const GraphNode& node) { return node.op == static_cast<uint16_t>(Op::kLaunch); }));
  if (result == CUDA_SUCCESS) *native = std::move(made);
  return result;
}

CUresult change(const DriverTable& driver, const Graph& graph, uint32_t number,
                NativeGraph* native) {
  if (native == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const GraphNode& node = graph.nodes[number];
  const CUgraphNode handle = native->nodes[number];
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  if (const CUresult r = driver.cuGraphNodeGetType(handle, &type); r != CUDA_SUCCESS) return r;
  if (node.op == static_cast<uint16_t>(Op::kLaunch) && type == CU_GRAPH_NODE_TYPE_KERNEL) {
    const KernelParams kernel(node);
    return driver.cuGraphExecKernelNodeSetParams_v2(native->exec, handle, &kernel.params);
  }
  if (node.op == static_cast<uint16_t>(Op::kRectFill) && type == CU_GRAPH_NODE_TYPE_MEMSET) {
    const CUDA_MEMSET_NODE_PARAMS params = fill_params(node.fill);
    return driver.cuGraphExecMemsetNodeSetParams(native->exec, handle, &params,
                                                 graph.context->handle);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace vgpu::server
