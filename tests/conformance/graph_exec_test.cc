// Executable graphs: launching, what runs and in which order.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

using GraphExecTest = GraphKernelTest;

TEST_F(GraphExecTest, EmptyGraph) {
  GraphHandle graph;
  ExecHandle exec(graph);
  const Stream stream;
  EXPECT_OK(cuGraphUpload(exec, stream));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
}

TEST_F(GraphExecTest, Handles) {
  GraphHandle graph;
  CUgraphExec exec = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(nullptr, graph, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 1u << 30), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, garbage_handle<CUgraph>(), 0),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuGraphInstantiate_v2(&exec, graph, nullptr, nullptr, 0));
  cuuint64_t flags = 9;
  EXPECT_OK(cuGraphExecGetFlags(exec, &flags));
  EXPECT_EQ(flags, 0U);
  const Stream stream;
  EXPECT_CU(cuGraphLaunch(exec, garbage_handle<CUstream>()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuGraphExecDestroy(exec));
  for (CUgraphExec wrong : {exec, CUgraphExec{nullptr}, garbage_handle<CUgraphExec>()}) {
    EXPECT_CU(cuGraphExecDestroy(wrong), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuGraphLaunch(wrong, stream), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(GraphExecTest, ChainRunsInOrder) {
  GraphHandle graph;
  const Words words(1000), copy(1000);
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 1000, 10);
  const CUgraphNode kernel = add_kernel(graph, {fill}, "add", words.at(), 1000, 5);
  add_copy(graph, {kernel},
           copy_params(CU_MEMORYTYPE_DEVICE, copy.at(), CU_MEMORYTYPE_DEVICE, words.at(),
                       words.bytes()));
  ExecHandle exec(graph);
  const Stream stream;
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_EQ(launch("add", stream, copy.at(), 1000, 1), CUDA_SUCCESS);
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(copy.read(), all(1000, 16));
}

TEST_F(GraphExecTest, DiamondsAndManyBranches) {
  GraphHandle graph;
  constexpr uint32_t kBranches = 40;
  const Words words(kBranches * 128), sum(128);
  const CUgraphNode root = add_fill(graph, {}, words.at(), kBranches * 128, 1);
  Nodes ends;
  for (uint32_t i = 0; i < kBranches; ++i) {
    const CUgraphNode first = add_kernel(graph, {root}, "add", words.at(i * 128), 128, i);
    ends.push_back(add_kernel(graph, {first}, "add", words.at(i * 128), 128, 1));
  }
  CUgraphNode join = nullptr;
  EXPECT_OK(cuGraphAddEmptyNode(&join, graph, ends.data(), ends.size()));
  add_copy(graph, {join},
           copy_params(CU_MEMORYTYPE_DEVICE, sum.at(), CU_MEMORYTYPE_DEVICE,
                       words.at((kBranches - 1) * 128), sum.bytes()));
  ExecHandle exec(graph);
  const Stream stream;
  for (int i = 0; i < 5; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(sum.read(), all(128, kBranches - 1 + 2));
}

TEST_F(GraphExecTest, LaunchWaitsForItsStreamOnly) {
  GraphHandle graph;
  const Words words(128);
  add_fill(graph, {}, words.at(), 128, 4);
  ExecHandle exec(graph);
  const Stream held, apart;
  Gate gate(function("gate"), held);
  EXPECT_OK(cuGraphLaunch(exec, apart));
  EXPECT_OK(cuStreamSynchronize(apart));
  EXPECT_EQ(words.read(), all(128, 4));
  EXPECT_OK(cuMemsetD32Async(words.at(), 0, 128, apart));
  EXPECT_OK(cuStreamSynchronize(apart));
  EXPECT_OK(cuGraphLaunch(exec, held));
  EXPECT_CU(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
  std::vector<uint32_t> seen(128);
  EXPECT_OK(cuMemcpyDtoHAsync_v2(seen.data(), words.at(), 512, apart));
  EXPECT_OK(cuStreamSynchronize(apart));
  EXPECT_EQ(seen, all(128, 0));
  gate.open();
  EXPECT_OK(cuStreamSynchronize(held));
  EXPECT_EQ(words.read(), all(128, 4));
}

TEST_F(GraphExecTest, LegacyAndPerThreadStreams) {
  GraphHandle graph;
  const Words words(128);
  add_kernel(graph, {}, "add", words.at(), 128, 1);
  ExecHandle exec(graph);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 128));
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(words.read(), all(128, 3));
}

TEST_F(GraphExecTest, TheExecutableIsACopy) {
  const Words words(128);
  CUgraphExec exec = nullptr;
  {
    GraphHandle graph;
    const CUgraphNode fill = add_fill(graph, {}, words.at(), 128, 1);
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_OK(cuGraphDestroyNode(fill));
  }
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuGraphExecDestroy(exec));  // what was launched still runs
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 1));
}

TEST_F(GraphExecTest, ChildGraphsRunInPlace) {
  GraphHandle inner, outer;
  const Words words(256);
  const CUgraphNode step = add_kernel(inner, {}, "add", words.at(), 256, 1);
  add_kernel(inner, {step}, "add", words.at(), 256, 2);
  const CUgraphNode fill = add_fill(outer, {}, words.at(), 256, 100);
  CUgraphNode child = nullptr, again = nullptr;
  EXPECT_OK(cuGraphAddChildGraphNode(&child, outer, &fill, 1, inner));
  EXPECT_OK(cuGraphAddChildGraphNode(&again, outer, &child, 1, inner));
  const Words copy(256);
  add_copy(outer, {again},
           copy_params(CU_MEMORYTYPE_DEVICE, copy.at(), CU_MEMORYTYPE_DEVICE, words.at(),
                       words.bytes()));
  ExecHandle exec(outer);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(copy.read(), all(256, 106));
}

// Host memory is read and written at every launch, pinned or not.
TEST_F(GraphExecTest, HostMemoryAtEveryLaunch) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(1000);
  std::vector<uint32_t> in(1000), out(1000);
  uint32_t* pinned = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&pinned), 4000, 0));
  {
    GraphHandle graph;
    const CUgraphNode up = add_upload(graph, {}, words.at(), in.data(), 4000);
    const CUgraphNode kernel = add_kernel(graph, {up}, "add", words.at(), 1000, 1);
    add_download(graph, {kernel}, out.data(), words.at(), 4000);
    add_download(graph, {kernel}, pinned, words.at(), 4000);
    ExecHandle exec(graph);
    const Stream stream;
    for (uint32_t round = 1; round < 4; ++round) {
      in.assign(1000, round * 10);
      EXPECT_OK(cuGraphLaunch(exec, stream));
      EXPECT_OK(cuStreamSynchronize(stream));
      EXPECT_EQ(out, all(1000, round * 10 + 1));
      EXPECT_EQ(pinned[999], round * 10 + 1);
    }
  }
  EXPECT_OK(cuMemFreeHost(pinned));
}

// A launch returns at once, also when the graph reads and writes ordinary memory, which happens in
// the order of the launches, once for each.
TEST_F(GraphExecTest, LaunchesWithOrdinaryMemoryDoNotWait) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(1000);
  std::vector<uint32_t> values(1000, 5);
  GraphHandle graph;
  const CUgraphNode up = add_upload(graph, {}, words.at(), values.data(), 4000);
  const CUgraphNode kernel = add_kernel(graph, {up}, "add", words.at(), 1000, 1);
  add_download(graph, {kernel}, values.data(), words.at(), 4000);
  ExecHandle exec(graph);
  const Stream stream;
  {
    Gate gate(function("gate"), stream);
    for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(values, all(1000, 5));
    gate.open();
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  for (int i = 0; i < 17; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(values, all(1000, 25));
}

// Boxes, other memory after an update, and two graphs with the same memory.
TEST_F(GraphExecTest, OrdinaryMemoryOfSeveralGraphs) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words words(64 * 8);
  words.write(all(64 * 8, 1));
  std::vector<uint32_t> left(64 * 8, 0), right(64 * 8, 0);
  CUDA_MEMCPY3D box = copy_params(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(left.data()),
                                  CU_MEMORYTYPE_DEVICE, words.at(), 128);
  box.Height = 8;
  box.srcPitch = box.dstPitch = 256;
  GraphHandle first, second;
  add_copy(first, {}, box);
  add_upload(second, {}, words.at(), left.data(), 256);
  ExecHandle down(first), up(second);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(down, stream));
  EXPECT_OK(cuGraphLaunch(up, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  for (size_t i = 0; i < left.size(); ++i) ASSERT_EQ(left[i], i % 64 < 32 ? 1U : 0U) << i;
  std::vector<uint32_t> row = words.read();
  row.resize(64);
  EXPECT_EQ(row, std::vector<uint32_t>(left.begin(), left.begin() + 64));
  GraphHandle other;
  box.dstHost = right.data();
  add_copy(other, {}, box);
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_OK(cuGraphExecUpdate_v2(down, other, &info));
  EXPECT_OK(cuGraphLaunch(down, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  for (size_t i = 64; i < right.size(); ++i) ASSERT_EQ(right[i], i % 64 < 32 ? 1U : 0U) << i;
}

// What a graph writes to ordinary memory it can read there again.
TEST_F(GraphExecTest, HostMemoryBetweenNodes) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Words from(64), to(64);
  std::vector<uint32_t> between(64);
  GraphHandle graph;
  const CUgraphNode fill = add_fill(graph, {}, from.at(), 64, 8);
  const CUgraphNode down = add_download(graph, {fill}, between.data(), from.at(), 256);
  add_upload(graph, {down}, to.at(), between.data(), 256);
  ExecHandle exec(graph);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(to.read(), all(64, 8));
  EXPECT_EQ(between, all(64, 8));
}

TEST_F(GraphExecTest, Rows) {
  const Words words(64 * 8), copy(32 * 8);
  words.write(all(64 * 8, 0));
  GraphHandle graph;
  CUDA_MEMSET_NODE_PARAMS params = {words.at(), 256, 9, 4, 32, 8};
  CUgraphNode fill = nullptr;
  ASSERT_OK(cuGraphAddMemsetNode(&fill, graph, nullptr, 0, &params, context_));
  CUDA_MEMCPY3D box =
      copy_params(CU_MEMORYTYPE_DEVICE, copy.at(), CU_MEMORYTYPE_DEVICE, words.at(), 128);
  box.srcPitch = 256;
  box.dstPitch = 128;
  box.Height = 8;
  add_copy(graph, {fill}, box);
  ExecHandle exec(graph);
  const Stream stream;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(copy.read(), all(32 * 8, 9));
  EXPECT_EQ(words.read()[32], 0U);
}

TEST_F(GraphExecTest, EventsAcrossStreams) {
  const Words words(128);
  GraphHandle graph;
  const Event before, after;
  CUgraphNode wait = nullptr, record = nullptr;
  EXPECT_OK(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, before));
  const CUgraphNode add = add_kernel(graph, {wait}, "add", words.at(), 128, 1);
  EXPECT_OK(cuGraphAddEventRecordNode(&record, graph, &add, 1, after));
  ExecHandle exec(graph);
  const Stream held, stream, last;
  {
    Gate gate(function("gate"), held);
    EXPECT_OK(cuMemsetD32Async(words.at(), 5, 128, held));
    EXPECT_OK(cuEventRecord(before, held));
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_CU(cuEventQuery(after), CUDA_ERROR_NOT_READY);
    EXPECT_OK(cuStreamWaitEvent(last, after, 0));
    EXPECT_EQ(launch("add", last, words.at(), 128, 10), CUDA_SUCCESS);
    EXPECT_CU(cuStreamQuery(last), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuEventSynchronize(after));
  EXPECT_OK(cuStreamSynchronize(last));
  EXPECT_EQ(words.read(), all(128, 16));
}

// Recorded in a stream, and then by a graph in another: what is known of the event afterwards is
// not known of that stream.
TEST_F(GraphExecTest, AnEventOfAGraphSaysNothingOfItsEarlierStream) {
  GraphHandle graph;
  const Event event;
  CUgraphNode record = nullptr;
  EXPECT_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
  ExecHandle exec(graph);
  const Stream held, stream;
  EXPECT_OK(cuEventRecord(event, held));
  Gate gate(function("gate"), held);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_CU(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
}

TEST_F(GraphExecTest, MemoryOperations) {
  const Words words(4);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 4));
  CUstreamBatchMemOpParams operations[2] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = words.at();
  operations[0].writeValue.value = 3;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = words.at(1);
  operations[1].waitValue.value = 7;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CUDA_BATCH_MEM_OP_NODE_PARAMS params = {context_, 2, operations, 0};
  GraphHandle graph;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params));
  add_fill(graph, {node}, words.at(2), 1, 9);
  CUDA_BATCH_MEM_OP_NODE_PARAMS got = {};
  EXPECT_OK(cuGraphBatchMemOpNodeGetParams(node, &got));
  EXPECT_EQ(got.count, 2U);
  ExecHandle exec(graph);
  const Stream stream, other;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  EXPECT_OK(cuMemsetD32Async(words.at(1), 7, 1, other));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{3, 7, 9, 0}));
}

TEST_F(GraphExecTest, ThousandNodes) {
  const Words words(128);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 128));
  GraphHandle graph;
  Nodes before;
  for (int i = 0; i < 1000; ++i) before = {add_kernel(graph, before, "add", words.at(), 128, 1)};
  ExecHandle exec(graph);
  const Stream stream;
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), all(128, 3000));
}

}  // namespace
}  // namespace vgpu::conformance
