// Reading parameters, making and changing nodes.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/node_params.h"

#include <algorithm>
#include <cstring>

#include "api/graph/backend.h"
#include "api/graph/conditional.h"
#include "api/graph/memory.h"
#include "api/graph/model.h"

namespace vgpu::graph {
namespace {

CUresult read_child(const CUDA_CHILD_GRAPH_NODE_PARAMS& params, Payload* payload) {
  if (params.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  if (params.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) return CUDA_ERROR_INVALID_VALUE;
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  const Graph* graph = model.find_graph(params.graph);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (has_memory_nodes(*graph) || has_conditionals(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  ChildPayload child{clone_child(*graph)};
  if (child.graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *payload = std::move(child);
  return CUDA_SUCCESS;
}

CUresult read_operations(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& params, CUcontext current,
                         Payload* payload) {
  if (params.count == 0 || params.count > 255 || params.paramArray == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  OperationsPayload operations{params.ctx != nullptr ? params.ctx : current,
                               params.flags,
                               {params.paramArray, params.paramArray + params.count}};
  const CUresult r = backend().check_operations(operations);
  *payload = std::move(operations);
  return r;
}

CUresult read_event(CUevent event, Payload* payload) {
  *payload = EventPayload{event};
  return backend().check_event(event);
}

CUresult read_kernel(const CUDA_KERNEL_NODE_PARAMS_v2& params, Payload* payload) {
  KernelPayload kernel;
  kernel.params = params;
  const CUresult r = backend().check_kernel(&kernel);
  *payload = std::move(kernel);
  return r;
}

}  // namespace

CUresult read_params(const CUgraphNodeParams& params, Payload* payload) {
  CUcontext current = nullptr;
  if (const CUresult r = backend().enter(&current); r != CUDA_SUCCESS) return r;
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS_v2 kernel;
      static_assert(sizeof(kernel) == sizeof(params.kernel));
      std::memcpy(&kernel, &params.kernel, sizeof(kernel));
      return read_kernel(kernel, payload);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      if (params.memcpy.flags != 0) return CUDA_ERROR_INVALID_VALUE;
      const CUcontext context = params.memcpy.copyCtx;
      CopyPayload copy{params.memcpy.copyParams, context != nullptr ? context : current};
      const CUDA_MEMCPY3D& box = copy.params;
      if (box.WidthInBytes == 0 || box.Height == 0 || box.Depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
      *payload = copy;
      return backend().check_copy(copy);
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      FillPayload fill{params.memset};
      if (fill.params.ctx == nullptr) fill.params.ctx = current;
      *payload = fill;
      if (fill.params.width == 0 || fill.params.height == 0) return CUDA_ERROR_INVALID_VALUE;
      return backend().check_fill(fill);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      if (params.host.fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *payload = HostPayload{{params.host.fn, params.host.userData}};
      return backend().check_host();
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return read_child(params.graph, payload);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      *payload = EmptyPayload();
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return read_event(params.eventWait.event, payload);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return read_event(params.eventRecord.event, payload);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return read_operations(params.memOp, current, payload);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS alloc;
      std::memcpy(&alloc, &params.alloc, sizeof(alloc));
      return read_alloc(alloc, current, payload);
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return read_free(params.free.dptr, payload);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return read_conditional(params.conditional, current, payload);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

bool parameters_may_change(CUgraphNodeType type) {
  return type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
         type != CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

// Ports and programmatic edges are for kernels only. They allow a start before the end of what
// comes before, and demand none.
bool valid_edge(const Node& from, const Node& to, const CUgraphEdgeData& data) {
  const bool zero = std::all_of(std::begin(data.reserved), std::end(data.reserved),
                                [](unsigned char byte) { return byte == 0; });
  if (!zero || data.to_port != 0) return false;
  const bool kernel = from.type == CU_GRAPH_NODE_TYPE_KERNEL;
  if (data.from_port > CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) return false;
  if (data.type == CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return data.from_port == 0 || kernel;
  return data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC && kernel &&
         to.type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult read_edges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                    size_t count, std::vector<Edge>* edges) {
  if (count != 0 && nodes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    Node* node = Model::instance().find_node(nodes[i]);
    if (node == nullptr || node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    for (const Edge& earlier : *edges) {
      if (earlier.node == node) return CUDA_ERROR_INVALID_VALUE;
    }
    edges->push_back({node, data == nullptr ? CUgraphEdgeData{} : data[i]});
  }
  return CUDA_SUCCESS;
}

namespace {

// The model's lock is held; a payload that becomes no node ends under it too.
CUresult create_locked(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                       const CUgraphEdgeData* data, size_t count, CUgraphNodeType type,
                       Payload payload) {
  Model& model = Model::instance();
  Graph* graph = model.find_graph(handle);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  if (const CUresult r = read_edges(*graph, before, data, count, &edges); r != CUDA_SUCCESS)
    return r;
  Node kind;
  kind.type = type;
  for (const Edge& edge : edges) {
    if (!valid_edge(*edge.node, kind, edge.data)) return CUDA_ERROR_INVALID_VALUE;
  }
  const bool of_memory =
      type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
  if (of_memory && graph->parent != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult r = check_place(*graph, payload); r != CUDA_SUCCESS) return r;
  if (const CUresult r = claim_free(graph, payload); r != CUDA_SUCCESS) return r;
  const Node* node = add_node(*graph, type, std::move(payload), edges);
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = model.handle_of(*node);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult create_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                     const CUgraphEdgeData* data, size_t count, CUgraphNodeType type,
                     Payload payload) {
  std::lock_guard lock(Model::instance().mutex);
  return create_locked(out, handle, before, data, count, type, std::move(payload));
}

CUresult change_node(CUgraphNode handle, CUgraphNodeType type, Payload payload) {
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  Node* node = model.find_node(handle);
  if (node == nullptr || node->type != type || type == CU_GRAPH_NODE_TYPE_GRAPH)
    return CUDA_ERROR_INVALID_VALUE;
  if (auto* kernel = std::get_if<KernelPayload>(&payload))  // attributes are set apart
    kernel->attributes = std::get<KernelPayload>(node->payload).attributes;
  node->payload = std::move(payload);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::graph
