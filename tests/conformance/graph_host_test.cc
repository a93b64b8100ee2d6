// Host functions as nodes, and stream-ordered allocations that are captured.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

class GraphHostTest : public GraphKernelTest {
 protected:
  // Work on pinned memory between two copies.
  struct Work {
    uint32_t* pinned = nullptr;
    std::atomic<int> calls{0};
    CUresult inside = CUDA_SUCCESS;
    static void CUDA_CB run(void* user) {
      auto* work = static_cast<Work*>(user);
      for (int i = 0; i < 64; ++i) work->pinned[i] *= 2;
      CUstream none = nullptr;
      work->inside = driver().cuStreamCreate(&none, 0);
      work->calls.fetch_add(1);
    }
    static void CUDA_CB count(void* user) { static_cast<Work*>(user)->calls.fetch_add(100); }
  };
  void SetUp() override {
    GraphKernelTest::SetUp();
    ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&work_.pinned), 256, 0));
  }
  void TearDown() override {
    EXPECT_OK(cuMemFreeHost(work_.pinned));
    GraphKernelTest::TearDown();
  }
  Work work_;
};

TEST_F(GraphHostTest, RunsBetweenNodesAtEveryLaunch) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(64);
  GraphHandle graph;
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 64, 5);
  const CUgraphNode down = add_download(graph, {fill}, work_.pinned, words.at(), 256);
  const CUDA_HOST_NODE_PARAMS params = {Work::run, &work_};
  CUgraphNode host = nullptr;
  ASSERT_OK(cuGraphAddHostNode(&host, graph, &down, 1, &params));
  add_upload(graph, {host}, words.at(), work_.pinned, 256);
  CUDA_HOST_NODE_PARAMS got = {};
  EXPECT_OK(cuGraphHostNodeGetParams(host, &got));
  EXPECT_EQ(got.userData, &work_);
  ExecHandle exec(graph);
  const Stream stream;
  for (int round = 1; round < 4; ++round) {
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(work_.calls.load(), round);
    EXPECT_EQ(words.read(), std::vector<uint32_t>(64, 10));
  }
  EXPECT_EQ(work_.inside, CUDA_ERROR_NOT_PERMITTED);
  const CUDA_HOST_NODE_PARAMS other = {Work::count, &work_};
  EXPECT_OK(cuGraphExecHostNodeSetParams(exec, host, &other));
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(work_.calls.load(), 303);
  EXPECT_CU(cuGraphAddHostNode(&host, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphHostTest, Captured) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(64);
  const Stream stream;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_OK(cuMemsetD32Async(words.at(), 3, 64, stream));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(work_.pinned, words.at(), 256, stream));
  EXPECT_OK(cuLaunchHostFunc(stream, Work::run, &work_));
  EXPECT_OK(cuMemcpyHtoDAsync_v2(words.at(), work_.pinned, 256, stream));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream, &captured));
  EXPECT_EQ(work_.calls.load(), 0);
  const GraphHandle graph(captured);
  {
    ExecHandle exec(graph);
    for (int i = 0; i < 10; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  }  // what was launched is called all the same
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(work_.calls.load(), 10);
  EXPECT_EQ(words.read(), std::vector<uint32_t>(64, 6));
}

TEST_F(GraphHostTest, CallbacksBecomeNoNodes) {
  const Stream stream;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuStreamAddCallback(
                stream, [](CUstream, CUresult, void*) {}, nullptr, 0),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(GraphHostTest, AllocationsInStreamOrder) {
  const Words out(64);
  const Stream stream;
  CUdeviceptr address = 0;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuMemAllocAsync(&address, 256, stream));
  EXPECT_OK(cuMemsetD32Async(address, 4, 64, stream));
  EXPECT_OK(cuMemcpyDtoDAsync_v2(out.at(), address, 256, stream));
  EXPECT_OK(cuMemFreeAsync(address, stream));
  CUgraph captured = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream, &captured));
  const GraphHandle graph(captured);
  EXPECT_EQ(count_nodes(graph), 4U);
  ExecHandle exec(graph);
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(out.read(), std::vector<uint32_t>(64, 4));
}

}  // namespace
}  // namespace vgpu::conformance
