// The memory double's graphs, host functions and operations on memory: all done at once, when they
// are launched, and what waits for a value does not.
// SPDX-License-Identifier: Apache-2.0
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "tests/doubles/memory_driver.h"

namespace {

using vgpu::testing::Kept;
using vgpu::testing::pointer;

struct FakeNode {
  CUgraphNodeType type;
  std::function<CUresult()> work;
};
struct FakeGraph {
  std::vector<std::unique_ptr<FakeNode>> nodes;
};
// The nodes of the graph that it was made of, which the server keeps as long.
struct FakeExec {
  std::vector<FakeNode*> nodes;
};

// A node after those before it, of which every one must be there.
CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* before, size_t count,
             CUgraphNodeType type, std::function<CUresult()> work) {
  for (size_t i = 0; i < count; ++i) {
    if (reinterpret_cast<FakeNode*>(before[i])->type > CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) abort();
  }
  auto& nodes = reinterpret_cast<FakeGraph*>(graph)->nodes;
  nodes.push_back(std::make_unique<FakeNode>(FakeNode{type, std::move(work)}));
  *out = reinterpret_cast<CUgraphNode>(nodes.back().get());
  return CUDA_SUCCESS;
}

std::function<CUresult()> launch_of(const CUDA_KERNEL_NODE_PARAMS& params) {
  return [function = params.func] {
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  };
}
std::function<CUresult()> fill_of(const CUDA_MEMSET_NODE_PARAMS& p) {
  return [p] {
    return vgpu::testing::fill_box(p.dst, p.pitch, p.value, p.elementSize, p.width, p.height);
  };
}

CUresult operate(const CUstreamBatchMemOpParams& each) {
  switch (each.operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      return cuStreamWriteValue32_v2(nullptr, each.writeValue.address, each.writeValue.value, 0);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return cuStreamWriteValue64_v2(nullptr, each.writeValue.address, each.writeValue.value64, 0);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      return cuStreamWaitValue32_v2(nullptr, each.waitValue.address, each.waitValue.value, 0);
    default:
      return cuStreamWaitValue64_v2(nullptr, each.waitValue.address, each.waitValue.value64, 0);
  }
}

template <typename T>
CUresult write(CUdeviceptr address, T value) {
  __atomic_store_n(static_cast<T*>(pointer(address)), value, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}
template <typename T>
CUresult read(CUdeviceptr address) {
  (void)__atomic_load_n(static_cast<T*>(pointer(address)), __ATOMIC_ACQUIRE);
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuStreamWaitValue32_v2(CUstream, CUdeviceptr address, cuuint32_t, unsigned) {
  return read<cuuint32_t>(address);
}
EXPORT CUresult cuStreamWaitValue64_v2(CUstream, CUdeviceptr address, cuuint64_t, unsigned) {
  return read<cuuint64_t>(address);
}
EXPORT CUresult cuStreamWriteValue32_v2(CUstream, CUdeviceptr address, cuuint32_t value, unsigned) {
  return write(address, value);
}
EXPORT CUresult cuStreamWriteValue64_v2(CUstream, CUdeviceptr address, cuuint64_t value, unsigned) {
  return write(address, value);
}
EXPORT CUresult cuStreamBatchMemOp_v2(CUstream, unsigned count, CUstreamBatchMemOpParams* all,
                                      unsigned) {
  for (unsigned i = 0; i < count; ++i) (void)operate(all[i]);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchHostFunc(CUstream, CUhostFn function, void* user) {
  return function(user), CUDA_SUCCESS;
}
EXPORT CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void* user,
                                    unsigned) {
  return function(stream, CUDA_SUCCESS, user), CUDA_SUCCESS;
}

EXPORT CUresult cuGraphCreate(CUgraph* graph, unsigned) {
  return *graph = reinterpret_cast<CUgraph>(Kept<FakeGraph>::make()), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) { return Kept<FakeGraph>::destroy(graph); }
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                        size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_KERNEL, launch_of(*params));
}
EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                     size_t count, const CUDA_MEMCPY3D* copy, CUcontext) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEMCPY,
             [box = *copy] { return vgpu::testing::copy_box(box); });
}
EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                     size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                                     CUcontext) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_MEMSET, fill_of(*params));
}
EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                    size_t count) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_EMPTY, [] { return CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph,
                                          const CUgraphNode* before, size_t count, CUevent event) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [event] { return cuEventRecord(event, nullptr); });
}
EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                        size_t count, CUevent event) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
             [event] { return cuEventQuery(event); });
}
EXPORT CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                   size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_HOST,
             [p = *params] { return p.fn(p.userData), CUDA_SUCCESS; });
}
EXPORT CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* before,
                                         size_t count,
                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  std::vector<CUstreamBatchMemOpParams> all(params->paramArray, params->paramArray + params->count);
  return add(out, graph, before, count, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, [all = std::move(all)] {
    for (const CUstreamBatchMemOpParams& each : all) (void)operate(each);
    return CUDA_SUCCESS;
  });
}
EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID,
                                              const CUkernelNodeAttrValue*) {
  const bool kernel = reinterpret_cast<FakeNode*>(node)->type == CU_GRAPH_NODE_TYPE_KERNEL;
  return kernel ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  return *type = reinterpret_cast<FakeNode*>(node)->type, CUDA_SUCCESS;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  FakeExec* exec = Kept<FakeExec>::make();
  for (const auto& node : reinterpret_cast<FakeGraph*>(graph)->nodes)
    exec->nodes.push_back(node.get());
  return *out = reinterpret_cast<CUgraphExec>(exec), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS* params) {
  return reinterpret_cast<FakeNode*>(node)->work = launch_of(*params), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec, CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  return reinterpret_cast<FakeNode*>(node)->work = fill_of(*params), CUDA_SUCCESS;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream) {
  for (FakeNode* node : reinterpret_cast<FakeExec*>(exec)->nodes) (void)node->work();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec) { return Kept<FakeExec>::destroy(exec); }
