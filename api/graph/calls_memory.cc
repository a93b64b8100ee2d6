// Memory nodes, and what is asked about the memory of graphs.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "api/graph/backend.h"
#include "api/graph/memory.h"
#include "api/graph/model.h"
#include "api/graph/node_params.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Payload;

namespace {

template <typename P, typename Use>
CUresult with(CUgraphNode handle, const void* out, Use use) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(graph::Model::instance().mutex);
  const graph::Node* node = graph::Model::instance().find_node(handle);
  const P* payload = node == nullptr ? nullptr : std::get_if<P>(&node->payload);
  if (payload == nullptr) return CUDA_ERROR_INVALID_VALUE;
  use(*payload);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  if (params == nullptr) return graph::wrong_argument();
  CUgraphNodeParams node = {};
  node.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  static_assert(sizeof(node.alloc) == sizeof(*params));
  std::memcpy(&node.alloc, params, sizeof(*params));
  const CUresult r = driver::cuGraphAddNode_v2(out, graph, before, nullptr, count, &node);
  if (r == CUDA_SUCCESS) params->dptr = node.alloc.dptr;
  return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return with<graph::AllocPayload>(node, params, [&](auto& alloc) { *params = alloc.params; });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                               size_t count, CUdeviceptr address) {
  CUgraphNodeParams node = {};
  node.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  node.free.dptr = address;
  return driver::cuGraphAddNode_v2(out, graph, before, nullptr, count, &node);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return with<graph::FreePayload>(node, address, [&](auto& free) { *address = free.address; });
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return graph::memory_attribute(which, static_cast<uint64_t*>(value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute which, void* value) {
  if (const CUresult r = graph::backend().check_device(device); r != CUDA_SUCCESS) return r;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return graph::reset_memory_attribute(which, *static_cast<const uint64_t*>(value));
}

// Nodes keep their memory: there is none that nobody uses.
CUresult cuDeviceGraphMemTrim(CUdevice device) { return graph::backend().check_device(device); }

}  // namespace vgpu::driver
