// The driver's graph: one node for each of the guest's.
// SPDX-License-Identifier: Apache-2.0
#include "api/stream_memory.h"
#include "op.h"
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

CUresult add_node(const DriverTable& driver, CUgraph graph, const Context& context,
                  const Before& before, const GraphNode& node, CUgraphNode* out) {
  const CUgraphNode* first = before.data();
  const size_t count = before.size();
  switch (static_cast<Op>(node.op)) {
    case Op::kLaunch:
      return add_kernel(driver, graph, before, node, out);
    case Op::kRectCopy:
      return driver.cuGraphAddMemcpyNode(out, graph, first, count, &node.box, context.handle);
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

NativeGraph::~NativeGraph() {
  // Those of a context that is gone went with it.
  const Rundown::Use use(&context->use);
  if (!use) return;
  if (exec != nullptr) (void)driver->cuGraphExecDestroy(exec);
  if (graph != nullptr) (void)driver->cuGraphDestroy(graph);
}

CUresult build(const DriverTable& driver, const Graph& graph,
               std::shared_ptr<NativeGraph>* native) {
  if (!driver_has_all(driver)) return CUDA_ERROR_NOT_SUPPORTED;
  auto made = std::make_shared<NativeGraph>(&driver, graph.context);
  CUresult result = driver.cuGraphCreate(&made->graph, 0);
  made->nodes.reserve(graph.nodes.size());
  Before before;
  for (const GraphNode& node : graph.nodes) {
    if (result != CUDA_SUCCESS) break;
    before.clear();
    for (const uint32_t number : node.before) before.push_back(made->nodes[number]);
    CUgraphNode handle = nullptr;
    result = add_node(driver, made->graph, *graph.context, before, node, &handle);
    made->nodes.push_back(handle);
    if (node.point != nullptr) made->points.push_back(node.point);
  }
  if (result == CUDA_SUCCESS)
    result = driver.cuGraphInstantiateWithFlags(&made->exec, made->graph, graph.flags);
  if (result == CUDA_SUCCESS) *native = std::move(made);
  return result;
}

CUresult change(const DriverTable& driver, const Graph& graph, uint32_t number,
                NativeGraph* native) {
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
