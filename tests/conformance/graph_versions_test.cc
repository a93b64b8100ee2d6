// First and later versions of calls about graphs and captures, and calls that take any kind of
// node. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

class GraphVersionsTest : public GraphKernelTest {
 protected:
  void SetUp() override {
    GraphKernelTest::SetUp();
    if (!HasFatalFailure()) ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    if (stream_ != nullptr) EXPECT_OK(cuStreamDestroy_v2(stream_));
    GraphKernelTest::TearDown();
  }
  // As the first version has it.
  static CUDA_KERNEL_NODE_PARAMS_v1 first_version(const CUDA_KERNEL_NODE_PARAMS& params) {
    CUDA_KERNEL_NODE_PARAMS_v1 first = {};
    first.func = params.func;
    first.gridDimX = params.gridDimX;
    first.gridDimY = params.gridDimY;
    first.gridDimZ = params.gridDimZ;
    first.blockDimX = params.blockDimX;
    first.blockDimY = params.blockDimY;
    first.blockDimZ = params.blockDimZ;
    first.kernelParams = params.kernelParams;
    return first;
  }
  void run(CUgraphExec exec) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
  }
  CUstream stream_ = nullptr;
};

TEST_F(GraphVersionsTest, KernelNodesOfTheFirstVersion) {
  const Words words(128);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 128));
  GraphHandle graph;
  Launch launch{words.at(), 128, 3};
  describe("add", &launch);
  CUDA_KERNEL_NODE_PARAMS_v1 params = first_version(launch.params);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddKernelNode(&node, graph, nullptr, 0, &params));
  EXPECT_CU(cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  char log[64] = {};
  CUgraphNode error = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph, &error, log, sizeof(log)));
  run(exec);
  EXPECT_EQ(words.read(), all(128, 3));
  launch.value = 40;
  EXPECT_OK(cuGraphExecKernelNodeSetParams(exec, node, &params));
  EXPECT_CU(cuGraphExecKernelNodeSetParams(exec, node, nullptr), CUDA_ERROR_INVALID_VALUE);
  run(exec);
  EXPECT_EQ(words.read(), all(128, 43));
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(GraphVersionsTest, NodesOfAnyKind) {
  const Words words(128), copy(128);
  EXPECT_OK(cuMemsetD32_v2(copy.at(), 0, 128));
  GraphHandle graph;
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset.dst = words.at();
  params.memset.value = 5;
  params.memset.elementSize = 4;
  params.memset.width = 128;
  params.memset.height = 1;
  params.memset.ctx = context_;
  CUgraphNode fill = nullptr, moved = nullptr;
  ASSERT_OK(cuGraphAddNode(&fill, graph, nullptr, 0, &params));
  const CUDA_MEMCPY3D box =
      copy_params(CU_MEMORYTYPE_DEVICE, copy.at(), CU_MEMORYTYPE_DEVICE, words.at(), 512);
  ASSERT_OK(cuGraphAddMemcpyNode(&moved, graph, &fill, 1, &box, context_));
  CUgraphNode none = nullptr;
  CUgraphNodeParams wrong = params;
  wrong.type = static_cast<CUgraphNodeType>(99);
  EXPECT_CU(cuGraphAddNode(&none, graph, nullptr, 0, &wrong), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphAddNode(&none, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(copy.read(), all(128, 5));
  params.memset.value = 6;
  EXPECT_OK(cuGraphExecNodeSetParams(exec, fill, &params));
  EXPECT_CU(cuGraphExecNodeSetParams(exec, moved, &params), CUDA_ERROR_INVALID_VALUE);
  run(exec);
  EXPECT_EQ(copy.read(), all(128, 6));
}

TEST_F(GraphVersionsTest, EdgesWithData) {
  const Words words(128);
  GraphHandle graph;
  const CUgraphNode first = add_fill(graph, {}, words.at(), 128, 1);
  const CUgraphNode second = add_kernel(graph, {first}, "add", words.at(), 128, 1);
  CUgraphNode from = nullptr, to = nullptr, dependent = nullptr;
  CUgraphEdgeData data = {};
  std::memset(&data, 0x7f, sizeof(data));
  size_t count = 1;
  EXPECT_OK(cuGraphGetEdges_v2(graph, &from, &to, &data, &count));
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(from, first);
  EXPECT_EQ(to, second);
  EXPECT_EQ(data.type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
  std::memset(&data, 0x7f, sizeof(data));
  EXPECT_OK(cuGraphNodeGetDependentNodes_v2(first, &dependent, &data, &count));
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(dependent, second);
  EXPECT_EQ(data.type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
  EXPECT_OK(cuGraphRemoveDependencies_v2(graph, &first, &second, &data, 1));
  EXPECT_OK(cuGraphGetEdges_v2(graph, nullptr, nullptr, nullptr, &count));
  EXPECT_EQ(count, 0U);
  EXPECT_CU(cuGraphRemoveDependencies_v2(graph, &first, &second, &data, 1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphVersionsTest, EventsThatNodesRecordAndAwait) {
  const Words words(128);
  const Event first, second;
  GraphHandle graph;
  CUgraphNode record = nullptr, wait = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, first));
  ASSERT_OK(cuGraphAddEventWaitNode(&wait, graph, &record, 1, first));
  EXPECT_OK(cuGraphEventRecordNodeSetEvent(record, second));
  CUevent found = nullptr;
  EXPECT_OK(cuGraphEventRecordNodeGetEvent(record, &found));
  EXPECT_EQ(found, static_cast<CUevent>(second));
  EXPECT_CU(cuGraphEventRecordNodeSetEvent(record, nullptr), CUDA_ERROR_INVALID_VALUE);
  ExecHandle exec(graph);
  EXPECT_OK(cuGraphExecEventRecordNodeSetEvent(exec, record, first));
  EXPECT_OK(cuGraphExecEventWaitNodeSetEvent(exec, wait, second));
  EXPECT_CU(cuGraphExecEventWaitNodeSetEvent(exec, record, second), CUDA_ERROR_INVALID_VALUE);
  const Stream busy;
  {
    // The graph waits for what is recorded behind the gate, and records the other event afterwards.
    Gate gate(function("gate"), busy);
    EXPECT_OK(cuEventRecord(second, busy));
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_CU(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_OK(cuStreamSynchronize(stream_));
  }
  EXPECT_OK(cuEventQuery(first));
}

void CUDA_CB add_ten(void* word) { *static_cast<std::atomic<uint32_t>*>(word) += 10; }
void CUDA_CB add_one(void* word) { *static_cast<std::atomic<uint32_t>*>(word) += 1; }

TEST_F(GraphVersionsTest, FunctionsAndOperationsOfNodes) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(4);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 4));
  GraphHandle graph;
  std::atomic<uint32_t> word{0};
  CUDA_HOST_NODE_PARAMS host = {add_one, &word};
  CUgraphNode call = nullptr, write = nullptr;
  ASSERT_OK(cuGraphAddHostNode(&call, graph, nullptr, 0, &host));
  host.fn = add_ten;
  EXPECT_OK(cuGraphHostNodeSetParams(call, &host));
  EXPECT_CU(cuGraphHostNodeSetParams(call, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUstreamBatchMemOpParams operation = {};
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = words.at();
  operation.writeValue.value = 7;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {};
  params.ctx = context_;
  params.count = 1;
  params.paramArray = &operation;
  ASSERT_OK(cuGraphAddBatchMemOpNode(&write, graph, nullptr, 0, &params));
  operation.writeValue.value = 8;
  EXPECT_OK(cuGraphBatchMemOpNodeSetParams(write, &params));
  EXPECT_CU(cuGraphBatchMemOpNodeSetParams(write, nullptr), CUDA_ERROR_INVALID_VALUE);
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(word.load(), 10U);
  EXPECT_EQ(words.read()[0], 8U);
}

TEST_F(GraphVersionsTest, CapturesOfTheFirstVersion) {
  const Words words(128), others(16);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 128));
  EXPECT_OK(cuCtxSynchronize());
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 0;
  EXPECT_OK(cuStreamGetCaptureInfo(stream_, &status, &id));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_OK(cuStreamBeginCapture(stream_));
  EXPECT_CU(cuStreamBeginCapture(stream_), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_OK(cuStreamGetCaptureInfo(stream_, &status, &id));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(launch("add", stream_, words.at(), 128, 1), CUDA_SUCCESS);
  // What comes next depends on nothing any more.
  EXPECT_OK(cuStreamUpdateCaptureDependencies_v2(stream_, nullptr, nullptr, 0,
                                                 CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  EXPECT_EQ(launch("add", stream_, others.at(), 16, 1), CUDA_SUCCESS);
  CUgraph made = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &made));
  GraphHandle graph(made);
  size_t roots = 0;
  EXPECT_OK(cuGraphGetRootNodes(graph, nullptr, &roots));
  EXPECT_EQ(roots, 2U);
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(words.read(), all(128, 1));
}

}  // namespace
}  // namespace vgpu::conformance
