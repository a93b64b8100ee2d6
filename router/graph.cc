// Graphs: one server's each. Kernels of libraries are named by the router's handles, so parameters
// of kernel nodes are translated both ways.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <type_traits>

#include "driver_functions.h"
#include "router/place.h"

namespace vgpu::driver {

using router::by_graph;
using router::by_handle;
using router::Place;

namespace {

// A copy of `params` with the server's own kernels.
template <typename Params>
CUresult own(const Place& at, const Params& params, Params* out) {
  *out = params;
  if (CUresult r = at.own(&out->func); r != CUDA_SUCCESS) return r;
  if constexpr (requires { out->kern; }) return at.own(&out->kern);
  return CUDA_SUCCESS;
}

// The server's answer with the kernels that the program knows.
template <typename Params>
CUresult as_shared(CUresult result, Params* params) {
  if (result != CUDA_SUCCESS) return result;
  auto& libraries = router::Libraries::instance();
  params->func =
      reinterpret_cast<CUfunction>(libraries.shared(reinterpret_cast<CUkernel>(params->func)));
  if constexpr (requires { params->kern; }) params->kern = libraries.shared(params->kern);
  return result;
}

// `call` with translated parameters, or with none at all.
template <typename Params, typename Call>
CUresult with_own(const Place& at, const Params* params, const Call& call) {
  if (at.result != CUDA_SUCCESS) return at.result;
  if (params == nullptr) return call(params);
  Params mine;
  if (CUresult r = own(at, *params, &mine); r != CUDA_SUCCESS) return r;
  return call(static_cast<const Params*>(&mine));
}

bool is_foreign(const Place& at, CUmemorytype type, CUdeviceptr address) {
  return (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) &&
         router::is_foreign(at, address);
}

// A graph's copies are its server's own.
Place with_copy(Place at, const CUDA_MEMCPY3D* copy) {
  if (at.result != CUDA_SUCCESS || copy == nullptr) return at;
  if (is_foreign(at, copy->srcMemoryType, copy->srcDevice) ||
      is_foreign(at, copy->dstMemoryType, copy->dstDevice))
    return {router::refuse_across("a graph's copy")};
  return at;
}

// The same of a node of whatever kind.
template <typename Call>
CUresult with_own_node(Place at, CUgraphNodeParams* params, const Call& call) {
  if (at.result != CUDA_SUCCESS) return at.result;
  if (params == nullptr) return call(at, params);
  if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) return not_served("a graph's allocation");
  if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY) at = with_copy(at, &params->memcpy.copyParams);
  if (at.result != CUDA_SUCCESS) return at.result;
  if (params->type != CU_GRAPH_NODE_TYPE_KERNEL) return call(at, params);
  CUgraphNodeParams mine = *params;
  if (CUresult r = own(at, params->kernel, &mine.kernel); r != CUDA_SUCCESS) return r;
  return call(at, &mine);
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  const Place at = by_graph(graph);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS_v1* mine) {
    return at->cuGraphAddKernelNode(node, graph, dependencies, count, mine);
  });
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  const Place at = by_graph(graph);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS* mine) {
    return at->cuGraphAddKernelNode_v2(node, graph, dependencies, count, mine);
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  const Place at = by_handle(node);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS_v1* mine) {
    return at->cuGraphKernelNodeSetParams(node, mine);
  });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  const Place at = by_handle(node);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS* mine) {
    return at->cuGraphKernelNodeSetParams_v2(node, mine);
  });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  const Place at = by_handle(node);
  if (at.result != CUDA_SUCCESS) return at.result;
  return as_shared(at->cuGraphKernelNodeGetParams(node, params), params);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* params) {
  const Place at = by_handle(node);
  if (at.result != CUDA_SUCCESS) return at.result;
  return as_shared(at->cuGraphKernelNodeGetParams_v2(node, params), params);
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  const Place at = by_handle(exec);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS_v1* mine) {
    return at->cuGraphExecKernelNodeSetParams(exec, node, mine);
  });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) {
  const Place at = by_handle(exec);
  return with_own(at, params, [&](const CUDA_KERNEL_NODE_PARAMS* mine) {
    return at->cuGraphExecKernelNodeSetParams_v2(exec, node, mine);
  });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* copy, CUcontext context) {
  const Place at = with_copy(by_graph(graph), copy);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuGraphAddMemcpyNode(node, graph, dependencies, count, copy, context);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* copy) {
  const Place at = with_copy(by_handle(node), copy);
  return at.result != CUDA_SUCCESS ? at.result : at->cuGraphMemcpyNodeSetParams(node, copy);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* copy, CUcontext context) {
  const Place at = with_copy(by_handle(exec), copy);
  if (at.result != CUDA_SUCCESS) return at.result;
  return at->cuGraphExecMemcpyNodeSetParams(exec, node, copy, context);
}

CUresult cuGraphAddNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                        size_t count, CUgraphNodeParams* params) {
  return with_own_node(by_graph(graph), params, [&](const Place& at, CUgraphNodeParams* mine) {
    return at->cuGraphAddNode(node, graph, dependencies, count, mine);
  });
}

CUresult cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                           const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* params) {
  return with_own_node(by_graph(graph), params, [&](const Place& at, CUgraphNodeParams* mine) {
    return at->cuGraphAddNode_v2(node, graph, dependencies, edges, count, mine);
  });
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return with_own_node(by_handle(node), params, [&](const Place& at, CUgraphNodeParams* mine) {
    return at->cuGraphNodeSetParams(node, mine);
  });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return with_own_node(by_handle(exec), params, [&](const Place& at, CUgraphNodeParams* mine) {
    return at->cuGraphExecNodeSetParams(exec, node, mine);
  });
}

}  // namespace vgpu::driver
