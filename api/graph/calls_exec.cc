// Executable graphs: making, launching, changing.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>

#include "api/graph/capture.h"
#include "api/graph/exec.h"
#include "api/graph/memory.h"
#include "api/graph/node_params.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Exec;
using graph::Model;
using graph::Payload;

namespace {

std::shared_ptr<Exec> find(CUgraphExec handle) {
  std::lock_guard lock(Model::instance().mutex);
  return Model::instance().find_exec(handle);
}

template <typename Use>
CUresult with_exec(CUgraphExec handle, Use use) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<Exec> exec = find(handle);
  return exec == nullptr ? CUDA_ERROR_INVALID_VALUE : use(*exec);
}

CUresult instantiate(CUgraphExec* out, CUgraph graph, uint64_t flags, CUgraphNode* error_node,
                     char* log, size_t log_bytes) {
  CUgraphNode node = nullptr;
  CUgraphInstantiateResult why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  const CUresult result = graph::instantiate(graph, flags, out, &node, &why);
  if (error_node != nullptr) *error_node = node;
  if (log != nullptr && log_bytes != 0) log[0] = 0;
  return result;
}

// The attributes of a kernel are not part of its parameters: they stay.
CUresult set_params(CUgraphExec handle, CUgraphNode node, const CUgraphNodeParams& params) {
  if (!graph::parameters_may_change(params.type)) return CUDA_ERROR_NOT_SUPPORTED;
  return with_exec(handle, [&](Exec& exec) {
    Payload payload;
    if (const CUresult r = graph::read_params(params, &payload); r != CUDA_SUCCESS) return r;
    return graph::set_payload(exec, node, params.type, std::move(payload));
  });
}

CUgraphNodeParams params_of(CUgraphNodeType type) {
  CUgraphNodeParams params = {};
  params.type = type;
  return params;
}

template <typename Kernel>
CUresult set_kernel(CUgraphExec exec, CUgraphNode node, const Kernel* kernel) {
  if (kernel == nullptr) return graph::wrong_argument();
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
  std::memcpy(&params.kernel, kernel, sizeof(*kernel));
  return set_params(exec, node, params);
}

CUresult set_event(CUgraphExec exec, CUgraphNode node, CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams params = params_of(type);
  params.eventRecord.event = event;
  return set_params(exec, node, params);
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return instantiate(out, graph, flags, nullptr, nullptr, 0);
}

CUresult cuGraphInstantiate(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  return instantiate(out, graph, 0, error_node, log, log_bytes);
}

CUresult cuGraphInstantiate_v2(CUgraphExec* out, CUgraph graph, CUgraphNode* error_node, char* log,
                               size_t log_bytes) {
  return instantiate(out, graph, 0, error_node, log, log_bytes);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return graph::wrong_argument();
  return graph::instantiate(graph, params->flags, out, &params->hErrNode_out, &params->result_out);
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  if (flags == nullptr) return graph::wrong_argument();
  return with_exec(handle, [&](Exec& exec) {
    *flags = exec.flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  return graph::destroy_exec(handle);
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  if (graph::watching()) {
    graph::StreamKey key;
    if (const CUresult r = graph::backend().find_stream(stream, &key); r != CUDA_SUCCESS) return r;
    if (const auto r = graph::capture_graph(key, handle)) return *r;
  }
  return with_exec(handle, [&](Exec& exec) {
    std::lock_guard in_use(exec.mutex);
    if (exec.back == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = graph::check_launch(exec);
    if (r == CUDA_SUCCESS) r = exec.back->launch(stream);
    if (r == CUDA_SUCCESS) graph::count_launch(exec);
    return r;
  });
}

// There is nothing to bring up that instantiating has not.
CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  CUcontext current = nullptr;
  graph::StreamKey key;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  if (const CUresult r = graph::backend().find_stream(stream, &key); r != CUDA_SUCCESS) return r;
  if (const CUresult r = graph::check_stream_use(key); r != CUDA_SUCCESS) return r;
  return with_exec(handle, [](Exec&) { return CUDA_SUCCESS; });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph,
                              CUgraphExecUpdateResultInfo* info) {
  if (info == nullptr) return graph::wrong_argument();
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  return with_exec(handle, [&](Exec& exec) { return graph::update_exec(exec, graph, info); });
}

CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphNode* error_node,
                           CUgraphExecUpdateResult* why) {
  if (why == nullptr) return graph::wrong_argument();
  CUgraphExecUpdateResultInfo info;
  const CUresult result = driver::cuGraphExecUpdate_v2(handle, graph, &info);
  *why = info.result;
  if (error_node != nullptr) *error_node = info.errorNode;
  return result;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  if (params == nullptr) return graph::wrong_argument();
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
    return driver::cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
  return set_params(exec, node, *params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) {
  return set_kernel(exec, node, params);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  return set_kernel(exec, node, params);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* copy, CUcontext context) {
  if (copy == nullptr) return graph::wrong_argument();
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMCPY);
  params.memcpy.copyParams = *copy;
  params.memcpy.copyCtx = context;
  return set_params(exec, node, params);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* fill, CUcontext context) {
  if (fill == nullptr) return graph::wrong_argument();
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
  std::memcpy(&params.memset, fill, sizeof(*fill));
  params.memset.ctx = context;
  return set_params(exec, node, params);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* host) {
  if (host == nullptr) return graph::wrong_argument();
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_HOST);
  params.host.fn = host->fn;
  params.host.userData = host->userData;
  return set_params(exec, node, params);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* operations) {
  if (operations == nullptr) return graph::wrong_argument();
  CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  std::memcpy(&params.memOp, operations, sizeof(*operations));
  return set_params(exec, node, params);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec handle, CUgraphNode node, CUgraph child) {
  return with_exec(handle, [&](Exec& exec) { return graph::update_child(exec, node, child); });
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_event(exec, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return set_event(exec, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node, unsigned int enabled) {
  return with_exec(handle,
                   [&](Exec& exec) { return graph::set_enabled(exec, node, enabled != 0); });
}

CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node, unsigned int* enabled) {
  if (enabled == nullptr) return graph::wrong_argument();
  return with_exec(handle, [&](Exec& exec) {
    std::lock_guard lock(Model::instance().mutex);
    const graph::Node* found = graph::node_in(exec, node);
    if (found == nullptr || found->type > CU_GRAPH_NODE_TYPE_MEMSET)
      return CUDA_ERROR_INVALID_VALUE;
    *enabled = found->enabled ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

}  // namespace vgpu::driver
