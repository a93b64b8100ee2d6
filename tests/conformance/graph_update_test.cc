// Executable graphs that change: parameters of nodes, whole updates, nodes that are switched off.
// SPDX-License-Identifier: Apache-2.0
#include "graph_support.h"

namespace vgpu::conformance {
namespace {

using GraphUpdateTest = GraphKernelTest;

TEST_F(GraphUpdateTest, SetParameters) {
  const Words words(128), other(128);
  EXPECT_OK(cuMemsetD32_v2(other.at(), 0, 128));
  GraphHandle graph;
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 128, 1);
  const CUgraphNode kernel = add_kernel(graph, {fill}, "add", words.at(), 128, 1);
  const CUgraphNode copy = add_copy(
      graph, {kernel},
      copy_params(CU_MEMORYTYPE_DEVICE, other.at(), CU_MEMORYTYPE_DEVICE, words.at(), 512));
  ExecHandle exec(graph);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  Launch launch{words.at(), 128, 20};
  describe("add", &launch);
  EXPECT_OK(cuGraphExecKernelNodeSetParams_v2(exec, kernel, &launch.params));
  CUDA_MEMSET_NODE_PARAMS params = {words.at(), 0, 5, 4, 128, 1};
  EXPECT_OK(cuGraphExecMemsetNodeSetParams(exec, fill, &params, context_));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(other.read(), all(128, 25));
  CUDA_MEMCPY3D box =
      copy_params(CU_MEMORYTYPE_DEVICE, other.at(), CU_MEMORYTYPE_DEVICE, words.at(), 256);
  EXPECT_OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &box, context_));
  launch.value = 1;
  EXPECT_OK(cuGraphExecKernelNodeSetParams_v2(exec, kernel, &launch.params));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(other.read()[63], 6U);
  EXPECT_EQ(other.read()[64], 25U);
  // Of another kind, of another graph, more than one row.
  EXPECT_CU(cuGraphExecKernelNodeSetParams_v2(exec, fill, &launch.params),
            CUDA_ERROR_INVALID_VALUE);
  GraphHandle stranger;
  const CUgraphNode foreign = add_kernel(stranger, {}, "add", words.at(), 128, 1);
  EXPECT_CU(cuGraphExecKernelNodeSetParams_v2(exec, foreign, &launch.params),
            CUDA_ERROR_INVALID_VALUE);
  box.Height = 2;
  box.srcPitch = box.dstPitch = 256;
  EXPECT_CU(cuGraphExecMemcpyNodeSetParams(exec, copy, &box, context_), CUDA_ERROR_INVALID_VALUE);
}

// One node after the other is given new memory, where what the rest names is gone already; what is
// refused changes nothing.
TEST_F(GraphUpdateTest, CopiesOneByOne) {
  constexpr size_t kBytes = 4096;
  for (const bool pinned : {false, true}) {
    if (!maps_host_memory()) GTEST_SKIP() << "graphs here do not reach host memory";
    std::vector<std::vector<uint32_t>> ordinary(4, std::vector<uint32_t>(kBytes / 4));
    void* block = nullptr;
    EXPECT_OK(cuMemHostAlloc(&block, 4 * kBytes, 0));
    const auto host = [&](size_t i) {
      auto* const words =
          pinned ? static_cast<uint32_t*>(block) + i * kBytes / 4 : ordinary[i].data();
      std::fill_n(words, kBytes / 4, static_cast<uint32_t>(10 + i));
      return words;
    };
    CUdeviceptr old[2] = {}, fresh[2] = {};
    for (CUdeviceptr* each : {&old[0], &old[1], &fresh[0], &fresh[1]})
      EXPECT_OK(cuMemAlloc_v2(each, kBytes));
    GraphHandle graph;
    const CUgraphNode first = add_upload(graph, {}, old[0], host(0), kBytes);
    const CUgraphNode second = add_upload(graph, {first}, old[1], host(1), kBytes);
    ExecHandle exec(graph);
    const Stream stream;
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    for (const CUdeviceptr each : old) EXPECT_OK(cuMemFree_v2(each));
    const auto upload = [&](CUdeviceptr to, const uint32_t* from) {
      return copy_params(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_HOST,
                         reinterpret_cast<uint64_t>(from), kBytes);
    };
    CUDA_MEMCPY3D params = upload(fresh[0], host(2));
    EXPECT_OK(cuGraphExecMemcpyNodeSetParams(exec, first, &params, context_));
    params = upload(fresh[1], host(3));
    EXPECT_OK(cuGraphExecMemcpyNodeSetParams(exec, second, &params, context_));
    params = upload(0x1000, host(1));
    EXPECT_CU(cuGraphExecMemcpyNodeSetParams(exec, first, &params, context_),
              CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(cuMemsetD32_v2(fresh[i], 0, kBytes / 4));
      EXPECT_OK(cuCtxSynchronize());
    }
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    std::vector<uint32_t> words(kBytes / 4);
    for (uint32_t i = 0; i < 2; ++i) {
      EXPECT_OK(cuMemcpyDtoH_v2(words.data(), fresh[i], kBytes));
      EXPECT_EQ(words, std::vector<uint32_t>(kBytes / 4, 12 + i)) << pinned << " " << i;
      EXPECT_OK(cuMemFree_v2(fresh[i]));
    }
    EXPECT_OK(cuMemFreeHost(block));
  }
}

// A launch that waits has the parameters that it was launched with.
TEST_F(GraphUpdateTest, ParametersOfALaunchThatWaits) {
  const Words words(128);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 128));
  GraphHandle graph;
  const CUgraphNode kernel = add_kernel(graph, {}, "add", words.at(), 128, 1);
  ExecHandle exec(graph);
  const Stream stream;
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuGraphLaunch(exec, stream));
    Launch launch{words.at(), 128, 100};
    describe("add", &launch);
    EXPECT_OK(cuGraphExecKernelNodeSetParams_v2(exec, kernel, &launch.params));
    EXPECT_OK(cuGraphLaunch(exec, stream));
  }
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 101));
}

TEST_F(GraphUpdateTest, Update) {
  const Words words(128);
  GraphHandle first, second, other;
  add_kernel(first, {add_fill(first, {}, words.at(), 128, 1)}, "add", words.at(), 128, 1);
  add_kernel(second, {add_fill(second, {}, words.at(), 128, 30)}, "add", words.at(), 128, 4);
  ExecHandle exec(first);
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_OK(cuGraphExecUpdate_v2(exec, second, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 34));
  const CUgraphNode lone = add_fill(other, {}, words.at(), 128, 1);
  EXPECT_CU(cuGraphExecUpdate_v2(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, nullptr);
  const CUgraphNode fill = add_fill(other, {lone}, words.at(), 128, 1);
  CUgraphNode error = nullptr;
  CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  EXPECT_CU(cuGraphExecUpdate(exec, other, &error, &why), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(why, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(error, fill);
}

TEST_F(GraphUpdateTest, ChildParameters) {
  const Words words(128);
  GraphHandle inner, changed, outer;
  add_fill(inner, {}, words.at(), 128, 1);
  add_fill(changed, {}, words.at(), 128, 2);
  CUgraphNode child = nullptr;
  EXPECT_OK(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
  ExecHandle exec(outer);
  EXPECT_OK(cuGraphExecChildGraphNodeSetParams(exec, child, changed));
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 2));
  add_fill(changed, {}, words.at(), 128, 2);
  EXPECT_CU(cuGraphExecChildGraphNodeSetParams(exec, child, changed), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphUpdateTest, NodesThatAreSwitchedOff) {
  const Words words(128);
  GraphHandle graph;
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 128, 1);
  const CUgraphNode kernel = add_kernel(graph, {fill}, "add", words.at(), 128, 1);
  ExecHandle exec(graph);
  const Stream stream;
  unsigned enabled = 9;
  EXPECT_OK(cuGraphNodeGetEnabled(exec, kernel, &enabled));
  EXPECT_EQ(enabled, 1U);
  EXPECT_OK(cuGraphNodeSetEnabled(exec, kernel, 0));
  EXPECT_OK(cuGraphNodeGetEnabled(exec, kernel, &enabled));
  EXPECT_EQ(enabled, 0U);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 1));
  {  // a launch that is captured does the same
    CUgraph captured = nullptr;
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(cuGraphLaunch(exec, stream));
    ASSERT_OK(cuStreamEndCapture(stream, &captured));
    const GraphHandle outer(captured);
    const ExecHandle again(outer);
    EXPECT_OK(cuGraphLaunch(again, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(words.read(), all(128, 1));
  }
  EXPECT_OK(cuGraphNodeSetEnabled(exec, kernel, 1));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 2));
}

}  // namespace
}  // namespace vgpu::conformance
