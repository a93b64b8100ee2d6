// Waiting for green contexts, and their order: events, captures, graphs.
// SPDX-License-Identifier: Apache-2.0
#include "green_support.h"

namespace vgpu::conformance {
namespace {

TEST_F(GreenTest, WaitingForItIsWaitingForItsStreamsOnly) {
  const CUgreenCtx green = make(&all_);
  const CUstream stream = stream_of(green);
  Words words(16);
  words.write(std::vector<uint32_t>(16, 1));
  ::vgpu::conformance::Stream apart;
  {
    Gate held(function("gate"), apart);
    ASSERT_EQ(launch("add", stream, words.at(), 16, 1), CUDA_SUCCESS);
    EXPECT_OK(cuCtxSynchronize_v2(view_of(green)));
    EXPECT_OK(cuStreamQuery(stream));
    EXPECT_CU(cuStreamQuery(apart), CUDA_ERROR_NOT_READY);
    ASSERT_OK(cuCtxPushCurrent_v2(view_of(green)));
    EXPECT_OK(cuCtxSynchronize());
    ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
    EXPECT_CU(cuStreamQuery(apart), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(GreenTest, EventsAreBehindAllOfItsStreams) {
  const CUgreenCtx green = make(&all_);
  const CUstream one = stream_of(green), other = stream_of(green);
  Event event, elsewhere;
  {
    Gate first(function("gate"), one), second(function("gate"), other);
    ASSERT_OK(cuGreenCtxRecordEvent(green, event));
    first.open();
    ASSERT_OK(cuStreamSynchronize(one));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ASSERT_OK(cuCtxRecordEvent(view_of(green), elsewhere));
    EXPECT_CU(cuEventQuery(elsewhere), CUDA_ERROR_NOT_READY);
    second.open();
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventSynchronize(elsewhere));
  }
  ::vgpu::conformance::Stream apart;
  {
    Gate held(function("gate"), apart);
    ASSERT_OK(cuGreenCtxRecordEvent(green, event));  // no stream of its own is held
    EXPECT_OK(cuEventSynchronize(event));
  }
  EXPECT_OK(cuStreamDestroy_v2(one));
  EXPECT_OK(cuStreamDestroy_v2(other));
}

TEST_F(GreenTest, AllOfItsStreamsWaitForAnEvent) {
  const CUgreenCtx green = make(&all_), other = make(&all_);
  const CUstream before = stream_of(green), apart = stream_of(other);
  CUstream after = nullptr;
  ::vgpu::conformance::Stream held;
  Event event;
  Words words(16);
  {
    Gate gate(function("gate"), held);
    ASSERT_OK(cuEventRecord(event, held));
    ASSERT_OK(cuGreenCtxWaitEvent(green, event));
    after = stream_of(green);
    for (const CUstream each : {before, after, apart})
      ASSERT_EQ(launch("fill", each, words.at(), 16, 3), CUDA_SUCCESS);
    EXPECT_OK(cuStreamSynchronize(apart));
    EXPECT_CU(cuStreamQuery(before), CUDA_ERROR_NOT_READY);
    EXPECT_CU(cuStreamQuery(after), CUDA_ERROR_NOT_READY);
  }
  for (const CUstream each : {before, after, apart}) {
    EXPECT_OK(cuStreamSynchronize(each));
    EXPECT_OK(cuStreamDestroy_v2(each));
  }
}

TEST_F(GreenTest, CapturedStreamsAreLeftAlone) {
  const CUgreenCtx green = make(&all_);
  const CUstream stream = stream_of(green);
  Event event;
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuGreenCtxRecordEvent(green, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuGreenCtxWaitEvent(green, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(GreenTest, AGraphRunsWhereItsStreamDoes) {
  SKIP_UNLESS_IT_CAN_BE_SPLIT();
  CUdevResource groups[2];
  split(groups);
  const CUstream stream = stream_of(make(&groups[0])), other = stream_of(make(&groups[1]));
  const Sms elsewhere = places(other);
  Words words(kBlocks);
  CUdeviceptr address = words.at();
  void* params[] = {&address};
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_OK(cuLaunchKernel(where(), kBlocks, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  const std::vector<uint32_t> values = words.read();
  EXPECT_THAT(both(Sms(values.begin(), values.end()), elsewhere), ::testing::IsEmpty());
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_OK(cuStreamDestroy_v2(stream));
  EXPECT_OK(cuStreamDestroy_v2(other));
}

}  // namespace
}  // namespace vgpu::conformance
