// Graphs and captures for tests: handles that end with the scope, nodes in one line.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_CONFORMANCE_GRAPH_SUPPORT_H_
#define VGPU_TESTS_CONFORMANCE_GRAPH_SUPPORT_H_

#include <vector>

#include "fixture.h"

namespace vgpu::conformance {

class GraphHandle {
 public:
  GraphHandle() { EXPECT_OK(cuGraphCreate(&graph_, 0)); }
  explicit GraphHandle(CUgraph graph) : graph_(graph) {}
  ~GraphHandle() { EXPECT_OK(cuGraphDestroy(graph_)); }
  GraphHandle(const GraphHandle&) = delete;
  GraphHandle& operator=(const GraphHandle&) = delete;
  operator CUgraph() const { return graph_; }  // NOLINT(google-explicit-constructor)

 private:
  CUgraph graph_ = nullptr;
};

class ExecHandle {
 public:
  explicit ExecHandle(CUgraph graph, uint64_t flags = 0) {
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec_, graph, flags));
  }
  ~ExecHandle() { EXPECT_OK(cuGraphExecDestroy(exec_)); }
  ExecHandle(const ExecHandle&) = delete;
  ExecHandle& operator=(const ExecHandle&) = delete;
  operator CUgraphExec() const { return exec_; }  // NOLINT(google-explicit-constructor)

 private:
  CUgraphExec exec_ = nullptr;
};

using Nodes = std::vector<CUgraphNode>;

inline std::vector<uint32_t> all(size_t n, uint32_t value) {
  return std::vector<uint32_t>(n, value);
}

class GraphKernelTest : public KernelTest {
 protected:
  // A launch of fill or add over n words. The values live as long as this.
  struct Launch {
    CUdeviceptr data;
    uint32_t n, value;
    void* values[3] = {&data, &n, &value};
    CUDA_KERNEL_NODE_PARAMS params = {};
  };
  void describe(const char* name, Launch* launch) {
    launch->params = {};
    launch->params.func = function(name);
    launch->params.gridDimX = (launch->n + 127) / 128;
    launch->params.gridDimY = launch->params.gridDimZ = 1;
    launch->params.blockDimX = 128;
    launch->params.blockDimY = launch->params.blockDimZ = 1;
    launch->params.kernelParams = launch->values;
  }
  CUgraphNode add_kernel(CUgraph graph, const Nodes& before, const char* name, CUdeviceptr data,
                         uint32_t n, uint32_t value) {
    Launch launch{data, n, value};
    describe(name, &launch);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode_v2(&node, graph, before.data(), before.size(), &launch.params));
    return node;
  }
  CUgraphNode add_fill(CUgraph graph, const Nodes& before, CUdeviceptr data, size_t words,
                       uint32_t value) {
    CUDA_MEMSET_NODE_PARAMS params = {data, 0, value, 4, words, 1};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, before.data(), before.size(), &params, context_));
    return node;
  }
  static CUDA_MEMCPY3D copy_params(CUmemorytype to_type, uint64_t to, CUmemorytype from_type,
                                   uint64_t from, size_t bytes) {
    CUDA_MEMCPY3D params = {};
    params.dstMemoryType = to_type;
    params.dstDevice = to_type == CU_MEMORYTYPE_HOST ? 0 : to;
    params.dstHost = to_type == CU_MEMORYTYPE_HOST ? reinterpret_cast<void*>(to) : nullptr;
    params.srcMemoryType = from_type;
    params.srcDevice = from_type == CU_MEMORYTYPE_HOST ? 0 : from;
    params.srcHost = from_type == CU_MEMORYTYPE_HOST ? reinterpret_cast<void*>(from) : nullptr;
    params.WidthInBytes = bytes;
    params.Height = params.Depth = 1;
    return params;
  }
  CUgraphNode add_copy(CUgraph graph, const Nodes& before, const CUDA_MEMCPY3D& params) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemcpyNode(&node, graph, before.data(), before.size(), &params, context_));
    return node;
  }
  CUgraphNode add_upload(CUgraph graph, const Nodes& before, CUdeviceptr to, const void* from,
                         size_t bytes) {
    return add_copy(graph, before,
                    copy_params(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_HOST,
                                reinterpret_cast<uint64_t>(from), bytes));
  }
  CUgraphNode add_download(CUgraph graph, const Nodes& before, void* to, CUdeviceptr from,
                           size_t bytes) {
    return add_copy(graph, before,
                    copy_params(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(to),
                                CU_MEMORYTYPE_DEVICE, from, bytes));
  }
  static size_t count_nodes(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
};

}  // namespace vgpu::conformance

#endif  // VGPU_TESTS_CONFORMANCE_GRAPH_SUPPORT_H_
