// Adding nodes, and their parameters: one way for all kinds.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/graph/backend.h"
#include "api/graph/model.h"
#include "api/graph/node_params.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Model;
using graph::Node;
using graph::Payload;

namespace {

CUgraphNodeParams params_of(CUgraphNodeType type) {
  CUgraphNodeParams params = {};
  params.type = type;
  return params;
}

CUgraphNodeParams params_of(const CUDA_KERNEL_NODE_PARAMS_v2& kernel) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, &kernel, sizeof(kernel));
  return params;
}

CUgraphNodeParams params_of(const CUDA_KERNEL_NODE_PARAMS_v1& kernel) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, &kernel, sizeof(kernel));
  return params;
}

CUgraphNodeParams params_of(const CUDA_MEMCPY3D& copy, CUcontext context = nullptr) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyParams = copy;
  params.memcpy.copyCtx = context;
  return params;
}

CUgraphNodeParams params_of(const CUDA_MEMSET_NODE_PARAMS& fill, CUcontext context = nullptr) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
  std::memcpy(&params.memset, &fill, sizeof(fill));
  params.memset.ctx = context;
  return params;
}

CUgraphNodeParams params_of(const CUDA_HOST_NODE_PARAMS& host) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_HOST);
  params.host.fn = host.fn;
  params.host.userData = host.userData;
  return params;
}

CUgraphNodeParams params_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS& operations) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  std::memcpy(&params.memOp, &operations, sizeof(operations));
  return params;
}

CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = params_of(type);
  params.eventRecord.event = event;  // eventWait looks the same
  return params;
}

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
             const CUgraphEdgeData* data, size_t count, const CUgraphNodeParams& params) {
  Payload payload;
  if (const CUresult r = graph::read_params(params, &payload); r != CUDA_SUCCESS) return r;
  return graph::create_node(out, handle, before, data, count, params.type, std::move(payload));
}

template <typename... Params>
CUresult add_if(CUgraphNode* out, CUgraph handle, const CUgraphNode* before, size_t count,
                const auto* params, Params... more) {
  if (params == nullptr) return graph::wrong_argument();
  return add(out, handle, before, nullptr, count, params_of(*params, more...));
}

CUresult change(CUgraphNode node, const CUgraphNodeParams& params) {
  if (!graph::parameters_may_change(params.type)) return CUDA_ERROR_NOT_SUPPORTED;
  Payload payload;
  if (const CUresult r = graph::read_params(params, &payload); r != CUDA_SUCCESS) return r;
  return graph::change_node(node, params.type, std::move(payload));
}

CUresult change_if(CUgraphNode node, const auto* params) {
  return params == nullptr ? graph::wrong_argument() : change(node, params_of(*params));
}

// Calls `use` with what a node of this type has, under the lock.
template <typename P, typename Use>
CUresult with(CUgraphNode handle, CUgraphNodeType type, const void* out, Use use) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  Node* node = Model::instance().find_node(handle);
  if (node == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
  use(std::get<P>(node->payload));
  return CUDA_SUCCESS;
}

// The pointers lead into the node, as long as it has these parameters.
CUDA_KERNEL_NODE_PARAMS_v2 show(graph::KernelPayload& kernel) {
  CUDA_KERNEL_NODE_PARAMS_v2 params = kernel.params;
  kernel.pointers.clear();
  for (const graph::KernelParam& each : kernel.layout)
    kernel.pointers.push_back(kernel.packed.data() + each.offset);
  params.kernelParams = kernel.pointers.empty() ? nullptr : kernel.pointers.data();
  params.extra = nullptr;
  return params;
}

}  // namespace

CUresult cuGraphAddNode_v2(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                           const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  if (params == nullptr) return graph::wrong_argument();
  Payload payload;
  if (const CUresult r = graph::read_params(*params, &payload); r != CUDA_SUCCESS) return r;
  const auto* alloc = std::get_if<graph::AllocPayload>(&payload);
  auto* conditional = std::get_if<graph::ConditionalPayload>(&payload);
  const CUdeviceptr address = alloc == nullptr ? 0 : alloc->params.dptr;
  CUgraph* const bodies = conditional == nullptr ? nullptr : conditional->shown.data();
  const CUresult r =
      graph::create_node(out, handle, before, data, count, params->type, std::move(payload));
  if (r != CUDA_SUCCESS) return r;
  if (address != 0) params->alloc.dptr = address;
  if (bodies != nullptr) params->conditional.phGraph_out = bodies;  // the node's from now on
  return r;
}

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before, size_t count,
                        CUgraphNodeParams* params) {
  return driver::cuGraphAddNode_v2(out, handle, before, nullptr, count, params);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return params == nullptr ? graph::wrong_argument() : change(node, *params);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  return add_if(out, handle, before, count, params);
}

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return add_if(out, handle, before, count, params);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  return with<graph::KernelPayload>(node, CU_GRAPH_NODE_TYPE_KERNEL, params,
                                    [&](auto& kernel) { *params = show(kernel); });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return with<graph::KernelPayload>(node, CU_GRAPH_NODE_TYPE_KERNEL, params, [&](auto& kernel) {
    CUDA_KERNEL_NODE_PARAMS_v2 shown = show(kernel);
    if (shown.func == nullptr) shown.func = reinterpret_cast<CUfunction>(shown.kern);
    std::memcpy(params, &shown, sizeof(*params));
  });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return change_if(node, params);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return change_if(node, params);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                              size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  return add_if(out, handle, before, count, params, context);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* params) {
  return with<graph::CopyPayload>(node, CU_GRAPH_NODE_TYPE_MEMCPY, params,
                                  [&](auto& copy) { *params = copy.params; });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return change_if(node, params);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                              CUcontext context) {
  return add_if(out, handle, before, count, params, context);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* params) {
  return with<graph::FillPayload>(node, CU_GRAPH_NODE_TYPE_MEMSET, params, [&](auto& fill) {
    std::memcpy(params, &fill.params, sizeof(*params));
  });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return change_if(node, params);
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return add_if(out, handle, before, count, params);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* params) {
  return with<graph::HostPayload>(node, CU_GRAPH_NODE_TYPE_HOST, params,
                                  [&](auto& host) { *params = host.params; });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return change_if(node, params);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                                  size_t count, CUgraph child) {
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
  params.graph.graph = child;
  return add(out, handle, before, nullptr, count, params);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return with<graph::ChildPayload>(node, CU_GRAPH_NODE_TYPE_GRAPH, out, [&](auto& child) {
    *out = Model::instance().handle_of(*child.graph);
  });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                             size_t count) {
  return add(out, handle, before, nullptr, count, params_of(CU_GRAPH_NODE_TYPE_EMPTY));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                                   size_t count, CUevent event) {
  return add(out, handle, before, nullptr, count,
             event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return with<graph::EventPayload>(node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out,
                                   [&](auto& payload) { *out = payload.event; });
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                                 size_t count, CUevent event) {
  return add(out, handle, before, nullptr, count,
             event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return with<graph::EventPayload>(node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out,
                                   [&](auto& payload) { *out = payload.event; });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return change(node, event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event));
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return add_if(out, handle, before, count, params);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return with<graph::OperationsPayload>(
      node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, params, [&](auto& operations) {
        params->ctx = operations.context;
        params->count = static_cast<unsigned>(operations.operations.size());
        params->paramArray = operations.operations.data();
        params->flags = operations.flags;
      });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return change_if(node, params);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                       CUkernelNodeAttrValue* value) {
  CUresult result = CUDA_SUCCESS;
  const CUresult r = with<graph::KernelPayload>(
      node, CU_GRAPH_NODE_TYPE_KERNEL, value,
      [&](auto& kernel) { result = kernel.attributes.get(which, value); });
  return r != CUDA_SUCCESS ? r : result;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID which,
                                       const CUkernelNodeAttrValue* value) {
  CUresult result = CUDA_SUCCESS;
  const CUresult r = with<graph::KernelPayload>(
      node, CU_GRAPH_NODE_TYPE_KERNEL, value,
      [&](auto& kernel) { result = kernel.attributes.set(which, *value); });
  return r != CUDA_SUCCESS ? r : result;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  graph::KernelAttributes attributes;
  CUresult r = with<graph::KernelPayload>(from, CU_GRAPH_NODE_TYPE_KERNEL, &attributes,
                                          [&](auto& kernel) { attributes = kernel.attributes; });
  if (r != CUDA_SUCCESS) return r;
  return with<graph::KernelPayload>(to, CU_GRAPH_NODE_TYPE_KERNEL, &attributes,
                                    [&](auto& kernel) { kernel.attributes = attributes; });
}

}  // namespace vgpu::driver
