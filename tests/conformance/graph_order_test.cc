// Graphs that change, are recorded in and end while what was launched of them still runs.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <vector>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

using GraphOrderTest = GraphKernelTest;

// Writes down that it was called.
struct Named {
  std::vector<int>* calls;
  int name;
  static void CUDA_CB run(void* user) {
    const auto* named = static_cast<const Named*>(user);
    named->calls->push_back(named->name);
  }
  CUDA_HOST_NODE_PARAMS params() { return {run, this}; }
};

TEST_F(GraphOrderTest, AChangeLeavesWhatWasLaunchedAlone) {
  std::vector<int> calls;
  Named names[4] = {{&calls, 1}, {&calls, 2}, {&calls, 3}, {&calls, 4}};
  CUgraphNode host = nullptr, other_host = nullptr;
  GraphHandle graph, other;
  CUDA_HOST_NODE_PARAMS params = names[0].params();
  ASSERT_OK(cuGraphAddHostNode(&host, graph, nullptr, 0, &params));
  ExecHandle exec(graph);
  const Stream stream;
  Gate gate(function("gate"), stream);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  for (int i = 1; i < 3; ++i) {
    params = names[i].params();
    EXPECT_OK(cuGraphExecHostNodeSetParams(exec, host, &params));
  }
  params = names[3].params();
  ASSERT_OK(cuGraphAddHostNode(&other_host, other, nullptr, 0, &params));
  ExecHandle other_exec(other);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuGraphLaunch(other_exec, stream));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(calls, (std::vector<int>{1, 3, 4}));
}

TEST_F(GraphOrderTest, ManyChanges) {
  std::vector<int> calls;
  std::vector<Named> names;
  for (int i = 0; i < 300; ++i) names.push_back({&calls, i});
  GraphHandle graph;
  CUgraphNode host = nullptr;
  CUDA_HOST_NODE_PARAMS params = names[0].params();
  ASSERT_OK(cuGraphAddHostNode(&host, graph, nullptr, 0, &params));
  ExecHandle exec(graph);
  const Stream stream;
  std::vector<int> expected;
  for (int i = 0; i < 300; ++i) {
    params = names[static_cast<size_t>(i)].params();
    EXPECT_OK(cuGraphExecHostNodeSetParams(exec, host, &params));
    EXPECT_OK(cuGraphLaunch(exec, stream));
    expected.push_back(i);
  }
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(calls, expected);
}

// What waits for the function could only wait for ever.
TEST_F(GraphOrderTest, MayNotEndWhatCallsIt) {
  struct Call {
    CUgraphExec exec = nullptr;
    CUcontext context = nullptr;
    std::vector<CUresult> results;
    static void CUDA_CB run(void* user) {
      auto* call = static_cast<Call*>(user);
      call->results = {driver().cuGraphExecDestroy(call->exec),
                       driver().cuCtxDestroy_v2(call->context),
                       driver().cuDevicePrimaryCtxReset_v2(0)};
    }
  } call;
  GraphHandle graph;
  CUgraphNode host = nullptr;
  const CUDA_HOST_NODE_PARAMS params = {Call::run, &call};
  ASSERT_OK(cuGraphAddHostNode(&host, graph, nullptr, 0, &params));
  ExecHandle exec(graph);
  call.exec = exec;
  call.context = context_;
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(call.results, std::vector<CUresult>(3, CUDA_ERROR_NOT_PERMITTED));
}

// An event that was recorded in one stream, and then by a graph in another.
TEST_F(GraphOrderTest, AnEventOfAGraphSaysNothingOfOtherStreams) {
  const Stream held, apart;
  const Event event(CU_EVENT_DISABLE_TIMING);
  EXPECT_OK(cuEventRecord(event, held));
  EXPECT_OK(cuEventSynchronize(event));
  GraphHandle graph;
  CUgraphNode record = nullptr;
  EXPECT_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
  ExecHandle exec(graph);
  Gate gate(function("gate"), held);
  EXPECT_OK(cuGraphLaunch(exec, apart));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_CU(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
  gate.open();
  EXPECT_OK(cuStreamSynchronize(held));
}

// Launches of one graph follow one another, also where it has changed in between.
TEST_F(GraphOrderTest, ALaunchAfterAChangeFollowsTheOneBefore) {
  const Words words(2), out(1);
  words.write({0, 1});
  GraphHandle graph;
  CUstreamBatchMemOpParams wait = {};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = words.at(0);
  wait.waitValue.value = 1;
  wait.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context_, 1, &wait, 0};
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
  const CUgraphNode fill = add_fill(graph, {node}, out.at(), 1, 10);
  ExecHandle exec(graph);
  const Stream first, second, opener;
  EXPECT_OK(cuGraphLaunch(exec, first));  // waits for words[0]
  wait.waitValue.address = words.at(1);
  EXPECT_OK(cuGraphExecBatchMemOpNodeSetParams(exec, node, &params));
  const CUDA_MEMSET_NODE_PARAMS other = {out.at(), 0, 20, 4, 1, 1};
  EXPECT_OK(cuGraphExecMemsetNodeSetParams(exec, fill, &other, context_));
  EXPECT_OK(cuGraphLaunch(exec, second));  // waits for words[1], and the launch before
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (std::chrono::steady_clock::now() < limit) {
    EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuStreamWriteValue32_v2(opener, words.at(0), 1, 0));
  EXPECT_OK(cuStreamSynchronize(first));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(out.read(), std::vector<uint32_t>(1, 20));
}

}  // namespace
}  // namespace vgpu::conformance
