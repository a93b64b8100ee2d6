// Stream capture: what becomes a node, what invalidates, and how it ends.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

class CaptureTest : public GraphKernelTest {
 protected:
  static CUstreamCaptureStatus status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_OK(cuStreamIsCapturing(stream, &status));
    return status;
  }
  static void begin(CUstream stream,
                    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    ASSERT_OK(cuStreamBeginCapture_v2(stream, mode));
  }
  static CUgraph end(CUstream stream) {
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    return graph;
  }
  // Ends a capture that something has made invalid.
  static void expect_invalid(CUstream stream) {
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = garbage_handle<CUgraph>();
    EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  }
  static void run(CUgraph graph, CUstream stream, int times = 1) {
    ExecHandle exec(graph);
    for (int i = 0; i < times; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
};

TEST_F(CaptureTest, WorkBecomesNodes) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  const Stream stream;
  const Words words(1000), copy(1000);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 77, 1000));
  std::vector<uint32_t> in(1000), out(1000);
  begin(stream);
  EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cuMemcpyHtoDAsync_v2(words.at(), in.data(), 4000, stream));
  EXPECT_EQ(launch("add", stream, words.at(), 1000, 2), CUDA_SUCCESS);
  EXPECT_OK(cuMemcpyDtoDAsync_v2(copy.at(), words.at(), 4000, stream));
  EXPECT_OK(cuMemsetD32Async(copy.at(), 5, 1, stream));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), copy.at(), 4000, stream));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), copy.at(), 0, stream));
  const GraphHandle graph(end(stream));
  EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(count_nodes(graph), 6U);
  EXPECT_EQ(words.read(), all(1000, 77));  // nothing has run
  EXPECT_EQ(out, all(1000, 0));
  ExecHandle exec(graph);
  for (uint32_t round = 0; round < 3; ++round) {
    in.assign(1000, round);
    EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    std::vector<uint32_t> want = all(1000, round + 2);
    want[0] = 5;
    EXPECT_EQ(out, want);
  }
}

TEST_F(CaptureTest, BeginAndEndErrors) {
  const Stream stream;
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_CU(cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(7)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamBeginCapture_v2(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuStreamBeginCapture_v2(garbage_handle<CUstream>(), CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_INVALID_HANDLE);
  begin(stream);
  EXPECT_CU(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_CU(cuStreamEndCapture(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphDestroy(end(stream)));
}

TEST_F(CaptureTest, PerThreadStream) {
  const Words words(128);
  begin(CU_STREAM_PER_THREAD);
  EXPECT_EQ(launch("fill", CU_STREAM_PER_THREAD, words.at(), 128, 6), CUDA_SUCCESS);
  const GraphHandle graph(end(CU_STREAM_PER_THREAD));
  run(graph, CU_STREAM_PER_THREAD);
  EXPECT_EQ(words.read(), all(128, 6));
}

TEST_F(CaptureTest, ForkAndJoin) {
  const Stream stream, branch;
  const Event fork(CU_EVENT_DISABLE_TIMING), join(CU_EVENT_DISABLE_TIMING);
  const Words left(128), right(128);
  begin(stream);
  EXPECT_OK(cuMemsetD32Async(left.at(), 1, 128, stream));
  EXPECT_OK(cuEventRecord(fork, stream));
  EXPECT_EQ(status(branch), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_OK(cuStreamWaitEvent(branch, fork, 0));
  EXPECT_EQ(status(branch), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cuMemcpyDtoDAsync_v2(right.at(), left.at(), 512, branch));
  EXPECT_EQ(launch("add", branch, right.at(), 128, 3), CUDA_SUCCESS);
  EXPECT_OK(cuEventRecord(join, branch));
  EXPECT_OK(cuMemsetD32Async(left.at(), 9, 128, stream));  // beside the copy: not looked at
  EXPECT_OK(cuStreamWaitEvent(stream, join, 0));
  EXPECT_EQ(launch("add", stream, right.at(), 128, 1), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_CU(cuStreamEndCapture(branch, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  expect_invalid(stream);

  begin(stream);
  EXPECT_OK(cuMemsetD32Async(left.at(), 1, 128, stream));
  EXPECT_OK(cuEventRecord(fork, stream));
  EXPECT_OK(cuStreamWaitEvent(branch, fork, 0));
  EXPECT_OK(cuMemcpyDtoDAsync_v2(right.at(), left.at(), 512, branch));
  EXPECT_OK(cuEventRecord(join, branch));
  EXPECT_OK(cuStreamWaitEvent(stream, join, 0));
  EXPECT_EQ(launch("add", stream, right.at(), 128, 1), CUDA_SUCCESS);
  const GraphHandle captured(end(stream));
  EXPECT_EQ(status(branch), CU_STREAM_CAPTURE_STATUS_NONE);
  run(captured, stream, 3);
  EXPECT_EQ(right.read(), all(128, 2));
}

TEST_F(CaptureTest, UnjoinedBranch) {
  const Stream stream, branch;
  const Event fork(CU_EVENT_DISABLE_TIMING);
  const Words words(128);
  begin(stream);
  EXPECT_OK(cuMemsetD32Async(words.at(), 1, 128, stream));
  EXPECT_OK(cuEventRecord(fork, stream));
  EXPECT_OK(cuStreamWaitEvent(branch, fork, 0));
  EXPECT_OK(cuMemsetD32Async(words.at(), 2, 128, branch));
  CUgraph graph = garbage_handle<CUgraph>();
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(status(branch), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureTest, QueriesOfACapturedStreamInvalidate) {
  const Stream stream;
  for (int call = 0; call < 2; ++call) {
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (call == 0) {
      EXPECT_CU(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    } else {
      EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    EXPECT_CU(cuMemsetD32Async(kNowhere, 0, 1, stream), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_invalid(stream);
  }
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  expect_invalid(stream);
}

TEST_F(CaptureTest, CapturedEvents) {
  const Stream stream, outside;
  const Event event, plain;
  EXPECT_OK(cuEventRecord(plain, outside));
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  expect_invalid(stream);
  EXPECT_CU(cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_CU(cuStreamWaitEvent(outside, event, 0), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_OK(cuEventRecord(event, outside));  // and is an event like any other again
  EXPECT_OK(cuEventSynchronize(event));

  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cuStreamWaitEvent(stream, plain, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  expect_invalid(stream);

  const Stream second;
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  begin(second, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_CU(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  expect_invalid(stream);
  expect_invalid(second);
}

TEST_F(CaptureTest, ExternalEventsBecomeNodes) {
  const Stream stream;
  const Event event;
  EXPECT_CU(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
  begin(stream);
  EXPECT_OK(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL));
  EXPECT_OK(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
  const GraphHandle graph(end(stream));
  EXPECT_EQ(count_nodes(graph), 2U);
  run(graph, stream);
  EXPECT_OK(cuEventQuery(event));
}

TEST_F(CaptureTest, LegacyStreamBesideABlockingOne) {
  const Stream blocking(CU_STREAM_DEFAULT), apart;
  const Words words(16);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cuStreamIsCapturing(nullptr, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(this->status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_CU(cuMemsetD32Async(words.at(), 1, 16, nullptr), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  expect_invalid(blocking);
  begin(apart, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuMemsetD32Async(words.at(), 1, 16, nullptr));
  EXPECT_OK(cuGraphDestroy(end(apart)));
}

TEST_F(CaptureTest, UnsafeCalls) {
  const Stream stream;
  CUdeviceptr address = 0;
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    begin(stream, mode);
    EXPECT_CU(cuMemAlloc_v2(&address, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_invalid(stream);
  }
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_OK(cuMemAlloc_v2(&address, 64));
  EXPECT_OK(cuMemFree_v2(address));
  EXPECT_OK(cuGraphDestroy(end(stream)));
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {  // another thread is told in the global mode, unless it is relaxed itself
    EXPECT_OK(cuCtxSetCurrent(context_));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr other = 0;
    EXPECT_OK(cuMemAlloc_v2(&other, 64));
    EXPECT_OK(cuMemFree_v2(other));
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_CU(cuMemAlloc_v2(&other, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    mode = static_cast<CUstreamCaptureMode>(5);
    EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);
  })
      .join();
  expect_invalid(stream);
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    CUdeviceptr other = 0;
    EXPECT_OK(cuMemAlloc_v2(&other, 64));
    EXPECT_OK(cuMemFree_v2(other));
  }).join();
  EXPECT_OK(cuGraphDestroy(end(stream)));
}

TEST_F(CaptureTest, EndingInAnotherThread) {
  const Stream stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    CUgraph graph = nullptr;
    EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  EXPECT_OK(cuGraphDestroy(end(stream)));
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuGraphDestroy(end(stream)));
  }).join();
}

TEST_F(CaptureTest, InfoAndDependencies) {
  const Stream stream;
  const Words words(16);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 9;
  EXPECT_OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  begin(stream);
  EXPECT_OK(cuMemsetD32Async(words.at(), 1, 16, stream));
  EXPECT_OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &nodes, &edges, &count));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(count, 1U);
  const CUgraphNode first = nodes[0];
  CUgraphNode extra = add_kernel(graph, {first}, "add", words.at(), 16, 1);
  EXPECT_OK(
      cuStreamUpdateCaptureDependencies(stream, &extra, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  EXPECT_EQ(launch("add", stream, words.at(), 16, 1), CUDA_SUCCESS);
  EXPECT_OK(cuStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &nodes, &count));
  ASSERT_EQ(count, 1U);
  size_t before = 1;
  CUgraphNode dependency = nullptr;
  EXPECT_OK(cuGraphNodeGetDependencies(nodes[0], &dependency, &before));
  EXPECT_EQ(dependency, extra);
  CUgraphExec exec = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  const GraphHandle captured(end(stream));
  EXPECT_EQ(captured, graph);
  EXPECT_CU(cuStreamUpdateCaptureDependencies(stream, &extra, 1, 0), CUDA_ERROR_ILLEGAL_STATE);
  run(captured, stream);
  EXPECT_EQ(words.read(), all(16, 3));
}

TEST_F(CaptureTest, IntoAGraphThatExists) {
  const Stream stream;
  const Words words(16);
  GraphHandle graph;
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 16, 4);
  EXPECT_OK(cuStreamBeginCaptureToGraph(stream, graph, &fill, nullptr, 1,
                                        CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(launch("add", stream, words.at(), 16, 2), CUDA_SUCCESS);
  EXPECT_EQ(end(stream), graph);
  run(graph, stream);
  EXPECT_EQ(words.read(), all(16, 6));
}

TEST_F(CaptureTest, GraphsInsideGraphs) {
  const Stream stream;
  const Words words(16);
  GraphHandle inner;
  add_kernel(inner, {}, "add", words.at(), 16, 5);
  ExecHandle exec(inner);
  begin(stream);
  EXPECT_OK(cuMemsetD32Async(words.at(), 1, 16, stream));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuGraphLaunch(exec, stream));
  const GraphHandle outer(end(stream));
  EXPECT_EQ(count_nodes(outer), 3U);
  run(outer, stream);
  EXPECT_EQ(words.read(), all(16, 11));
}

TEST_F(CaptureTest, ArgumentsAreCheckedAtOnce) {
  const Stream stream;
  begin(stream);
  EXPECT_CU(
      cuLaunchKernel(garbage_handle<CUfunction>(), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr),
      CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuMemsetD32Async(kNowhere, 0, 1, stream), CUDA_ERROR_INVALID_VALUE);
  const GraphHandle graph(end(stream));
  EXPECT_EQ(count_nodes(graph), 0U);
}

TEST_F(CaptureTest, DestroyingTheStreamEndsIt) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph graph = nullptr;
  EXPECT_OK(cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr));
  EXPECT_EQ(count_nodes(graph), 0U);
  EXPECT_OK(cuStreamDestroy_v2(stream));
  size_t count = 0;
  EXPECT_CU(cuGraphGetNodes(graph, nullptr, &count), CUDA_ERROR_INVALID_VALUE);  // gone with it
  CUdeviceptr address = 0;
  EXPECT_OK(cuMemAlloc_v2(&address, 64));
  EXPECT_OK(cuMemFree_v2(address));
}

}  // namespace
}  // namespace vgpu::conformance
