// Memory that graphs allocate and free.
// SPDX-License-Identifier: Apache-2.0
#include "graph_support.h"

namespace vgpu::conformance {
namespace {

class GraphMemoryTest : public GraphKernelTest {
 protected:
  CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes) const {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = device_;
    params.bytesize = bytes;
    return params;
  }
  CUgraphNode add_alloc(CUgraph graph, size_t bytes, CUdeviceptr* address) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(bytes);
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
    *address = params.dptr;
    return node;
  }
};

TEST_F(GraphMemoryTest, AllocatedUsedAndFreedInOneGraph) {
  const Words out(128);
  GraphHandle graph;
  CUdeviceptr address = 0;
  const CUgraphNode alloc = add_alloc(graph, 512, &address);
  ASSERT_NE(address, 0U);
  const CUgraphNode fill = add_fill(graph, {alloc}, address, 128, 3);
  const CUgraphNode kernel = add_kernel(graph, {fill}, "add", address, 128, 4);
  const CUgraphNode copy =
      add_copy(graph, {kernel},
               copy_params(CU_MEMORYTYPE_DEVICE, out.at(), CU_MEMORYTYPE_DEVICE, address, 512));
  CUgraphNode free = nullptr;
  EXPECT_OK(cuGraphAddMemFreeNode(&free, graph, &copy, 1, address));
  EXPECT_CU(cuGraphAddMemFreeNode(&free, graph, &copy, 1, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphAddMemFreeNode(&free, graph, &copy, 1, out.at()), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEM_ALLOC_NODE_PARAMS got = {};
  EXPECT_OK(cuGraphMemAllocNodeGetParams(alloc, &got));
  EXPECT_EQ(got.dptr, address);
  EXPECT_EQ(got.bytesize, 512U);
  CUdeviceptr freed = 0;
  EXPECT_OK(cuGraphMemFreeNodeGetParams(free, &freed));
  EXPECT_EQ(freed, address);
  ExecHandle exec(graph);
  const Stream stream;
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(out.read(), std::vector<uint32_t>(128, 7));
  EXPECT_CU(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphMemoryTest, LeftToTheProgram) {
  GraphHandle graph;
  CUdeviceptr address = 0;
  const CUgraphNode alloc = add_alloc(graph, 512, &address);
  add_fill(graph, {alloc}, address, 128, 9);
  ExecHandle exec(graph);
  const Stream stream;
  uint64_t used = 99;
  EXPECT_OK(cuDeviceGetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0U);
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuDeviceGetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_GE(used, 512U);
  EXPECT_CU(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);  // it is still allocated
  EXPECT_OK(cuStreamSynchronize(stream));
  std::vector<uint32_t> values(128);
  EXPECT_OK(cuMemcpyDtoH_v2(values.data(), address, 512));
  EXPECT_EQ(values, std::vector<uint32_t>(128, 9));
  EXPECT_OK(cuMemFree_v2(address));
  EXPECT_CU(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphLaunch(exec, garbage_handle<CUstream>()), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuGraphLaunch(exec, stream));  // the one before has allocated nothing
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuMemFree_v2(address));
  uint64_t zero = 0;
  EXPECT_OK(cuDeviceSetGraphMemAttribute(device_, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_OK(cuDeviceGraphMemTrim(device_));
  EXPECT_CU(cuDeviceGetGraphMemAttribute(99, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &used),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(GraphMemoryTest, FreedWithTheNextLaunch) {
  GraphHandle graph;
  CUdeviceptr address = 0;
  add_alloc(graph, 512, &address);
  ExecHandle exec(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  const Stream stream;
  for (int i = 0; i < 3; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_OK(cuMemFree_v2(address));
}

TEST_F(GraphMemoryTest, FreedByAnotherGraph) {
  GraphHandle first, second, third;
  CUdeviceptr address = 0;
  add_alloc(first, 512, &address);
  CUgraphNode free = nullptr;
  EXPECT_OK(cuGraphAddMemFreeNode(&free, second, nullptr, 0, address));
  EXPECT_CU(cuGraphAddMemFreeNode(&free, second, nullptr, 0, address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphAddMemFreeNode(&free, third, nullptr, 0, address));
  ExecHandle allocates(first), frees(second);
  CUgraphExec again = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(&again, second, 0), CUDA_ERROR_NOT_SUPPORTED);
  const Stream stream;
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(cuGraphLaunch(allocates, stream));
    EXPECT_OK(cuGraphLaunch(frees, stream));
  }
  EXPECT_OK(cuStreamSynchronize(stream));
}

// Graphs end while a stream is held, and memory of theirs may be in use there.
TEST_F(GraphMemoryTest, EndingWaitsForNoStream) {
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUdeviceptr address = 0;
  add_alloc(graph, 512, &address);
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  const Stream stream;
  const Words out(128);
  CUdeviceptr other = 0;
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuMemsetD32Async(address, 6, 128, stream));
    EXPECT_OK(cuMemcpyDtoDAsync_v2(out.at(), address, 512, stream));
    EXPECT_OK(cuMemFreeAsync(address, stream));
    EXPECT_OK(cuGraphExecDestroy(exec));
    EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_OK(cuMemAlloc_v2(&other, 512));
    EXPECT_NE(other, address);
  }
  EXPECT_OK(cuMemFree_v2(other));
  EXPECT_EQ(out.read(), std::vector<uint32_t>(128, 6));
}

// Who waits for an event that a graph has recorded does not follow the stream that recorded it
// before: memory that is freed there is not to be had yet.
TEST_F(GraphMemoryTest, EventsOfGraphsAndPools) {
  constexpr size_t kBytes = size_t{4} << 20;
  const Stream first, second, third;
  const Event event;
  GraphHandle graph;
  CUgraphNode record = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, event));
  ExecHandle exec(graph);
  {
    Gate gate(function("gate"), first);
    CUdeviceptr block = 0, other = 0;
    ASSERT_OK(cuMemAllocAsync(&block, kBytes, first));
    EXPECT_EQ(launch("fill", first, block, 1000, 1), CUDA_SUCCESS);
    EXPECT_OK(cuMemFreeAsync(block, first));
    EXPECT_OK(cuEventRecord(event, first));
    EXPECT_OK(cuGraphLaunch(exec, second));
    EXPECT_OK(cuStreamWaitEvent(third, event, 0));
    ASSERT_OK(cuMemAllocAsync(&other, kBytes, third));
    EXPECT_NE(other, block);
    EXPECT_OK(cuMemFreeAsync(other, third));
    EXPECT_OK(cuStreamSynchronize(third));
  }
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(GraphMemoryTest, EndsWithItsContext) {
  EXPECT_EQ(run_in_fresh_process("GraphMemoryChildTest.DISABLED_EndsWithItsContext"), 0);
}

// What is allocated at the same address afterwards is no graph's.
TEST(GraphMemoryChildTest, DISABLED_EndsWithItsContext) {
  CUcontext context = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  CUgraph graph = nullptr, kept = nullptr;
  CUgraphExec exec = nullptr;
  for (CUgraph* each : {&graph, &kept}) {
    ASSERT_OK(cuGraphCreate(each, 0));
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = 512;
    CUgraphNode node = nullptr;
    ASSERT_OK(cuGraphAddMemAllocNode(&node, *each, nullptr, 0, &params));
  }
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, nullptr));  // leaves it allocated
  ASSERT_OK(cuDevicePrimaryCtxReset_v2(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  CUdeviceptr blocks[4] = {};
  for (CUdeviceptr& block : blocks) ASSERT_OK(cuMemAlloc_v2(&block, 512));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
  uint64_t used = 99;
  EXPECT_OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
  EXPECT_EQ(used, 0U);
  for (const CUdeviceptr block : blocks) {
    EXPECT_OK(cuMemsetD32_v2(block, 1, 128));
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_CU(cuMemFree_v2(block), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_OK(cuGraphDestroy(kept));
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
}

TEST_F(GraphMemoryTest, WhatIsNotAllowed) {
  GraphHandle graph, parent;
  CUdeviceptr address = 0;
  const CUgraphNode alloc = add_alloc(graph, 512, &address);
  CUgraph copy = nullptr;
  EXPECT_CU(cuGraphClone(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_CU(cuGraphDestroyNode(alloc), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNode child = nullptr;
  EXPECT_CU(cuGraphAddChildGraphNode(&child, parent, nullptr, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
  ExecHandle exec(graph);
  CUgraphExec second = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
  CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(0);
  EXPECT_CU(cuGraphAddMemAllocNode(&child, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
  params = alloc_params(512);
  params.poolProps.location.id = 99;
  EXPECT_CU(cuGraphAddMemAllocNode(&child, graph, nullptr, 0, &params), CUDA_ERROR_INVALID_VALUE);
}

// Neither a captured launch nor a child graph brings memory nodes into another graph.
TEST_F(GraphMemoryTest, NotInsideOfOtherGraphs) {
  GraphHandle graph, empty, parent;
  CUdeviceptr address = 0;
  add_alloc(graph, 512, &address);
  {
    ExecHandle exec(graph);
    const Stream stream;
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CU(cuGraphLaunch(exec, stream), CUDA_ERROR_NOT_SUPPORTED);
    CUgraph captured = nullptr;
    EXPECT_OK(cuStreamEndCapture(stream, &captured));
    EXPECT_EQ(count_nodes(captured), 0U);
    EXPECT_OK(cuGraphDestroy(captured));
  }
  const ExecHandle again(graph);  // the first is gone
  CUgraphNode node = nullptr;
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, empty));
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(node, &child));
  CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(512);
  EXPECT_CU(cuGraphAddMemAllocNode(&node, child, nullptr, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_CU(cuGraphAddMemFreeNode(&node, child, nullptr, 0, address), CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace vgpu::conformance
