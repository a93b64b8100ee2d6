// Events of whole contexts: behind all work of one, and before all that is to come.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

std::vector<uint32_t> all(size_t n, uint32_t value) { return std::vector<uint32_t>(n, value); }

class ContextEventTest : public KernelTest {
 protected:
  // An event that is not reached while its gate is closed.
  struct Held {
    explicit Held(CUfunction kernel) : gate(kernel, stream) {
      EXPECT_OK(cuEventRecord(event, stream));
    }
    Stream stream;
    Event event;
    Gate gate;
  };
};

TEST_F(ContextEventTest, ARecordIsBehindTheWorkOfAllStreams) {
  Stream first, second(CU_STREAM_DEFAULT);
  Event event(CU_EVENT_DISABLE_TIMING), before;
  ASSERT_OK(cuCtxRecordEvent(context_, before));
  ASSERT_OK(cuEventSynchronize(before));  // nothing is under way
  {
    Gate one(function("gate"), first), two(function("gate"), second);
    ASSERT_OK(cuCtxRecordEvent(context_, event));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    two.open();
    ASSERT_OK(cuStreamSynchronize(second));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    one.open();
    EXPECT_OK(cuEventSynchronize(event));
  }
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventQuery(event));
}

TEST_F(ContextEventTest, ARecordKnowsTheWorkOfDestroyedStreams) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  Event event;
  Words words(16);
  words.write(all(16, 1));
  void* flag = nullptr;
  ASSERT_OK(cuMemHostAlloc(&flag, 4096, 0));
  *static_cast<uint32_t*>(flag) = 0;
  CUdeviceptr address = reinterpret_cast<CUdeviceptr>(flag);
  void* params[] = {&address};
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuLaunchKernel(function("gate"), 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  ASSERT_EQ(launch("add", stream, words.at(), 16, 1), CUDA_SUCCESS);
  ASSERT_OK(cuStreamDestroy_v2(stream));
  ASSERT_OK(cuCtxRecordEvent(context_, event));
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  __atomic_store_n(static_cast<uint32_t*>(flag), 1, __ATOMIC_RELEASE);
  ASSERT_OK(cuEventSynchronize(event));
  EXPECT_EQ(words.read(), all(16, 2));
  EXPECT_OK(cuMemFreeHost(flag));
}

TEST_F(ContextEventTest, AStreamWaitsForARecordOfAContext) {
  Stream held, waiting;
  Event event;
  Words words(16);
  words.write(all(16, 1));
  {
    Gate gate(function("gate"), held);
    ASSERT_EQ(launch("add", held, words.at(), 16, 1), CUDA_SUCCESS);
    ASSERT_OK(cuCtxRecordEvent(context_, event));
    ASSERT_OK(cuStreamWaitEvent(waiting, event, 0));
    ASSERT_EQ(launch("fill", waiting, words.at(), 16, 9), CUDA_SUCCESS);
    ASSERT_OK(cuEventRecord(event, nullptr));  // another record: the wait is for the one before
    EXPECT_CU(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  }
  ASSERT_OK(cuStreamSynchronize(waiting));
  EXPECT_EQ(words.read(), all(16, 9));
}

// Streams of all ages wait, whatever they are.
TEST_F(ContextEventTest, AllLaterWorkWaits) {
  Stream old;
  Words words(64);
  words.write(all(64, 1));
  ASSERT_OK(cuMemsetD32Async(words.at(48), 1, 1, CU_STREAM_PER_THREAD));
  ASSERT_OK(cuCtxSynchronize());
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  {
    Stream elsewhere;
    Event event;
    CUmodule module = nullptr;
    CUfunction gate_kernel = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, kKernels));
    ASSERT_OK(cuModuleGetFunction(&gate_kernel, module, "gate"));
    {
      Gate gate(gate_kernel, elsewhere);
      ASSERT_OK(cuEventRecord(event, elsewhere));
      ASSERT_OK(cuCtxSetCurrent(context_));
      ASSERT_OK(cuCtxWaitEvent(context_, event));
      Stream young;
      ASSERT_OK(cuMemsetD32Async(words.at(), 2, 16, old));
      ASSERT_OK(cuMemsetD32Async(words.at(16), 2, 16, young));
      ASSERT_OK(cuMemsetD32Async(words.at(32), 2, 16, CU_STREAM_LEGACY));
      ASSERT_OK(cuMemsetD32Async(words.at(48), 2, 16, CU_STREAM_PER_THREAD));
      for (CUstream stream :
           {CUstream(old), CUstream(young), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
        EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
      ASSERT_OK(cuCtxSetCurrent(other));
    }
    ASSERT_OK(cuCtxSetCurrent(context_));
    ASSERT_OK(cuCtxSynchronize());
    EXPECT_EQ(words.read(), all(64, 2));
    ASSERT_OK(cuCtxSetCurrent(other));
    EXPECT_OK(cuModuleUnload(module));
  }
  EXPECT_OK(cuCtxDestroy_v2(other));
  EXPECT_OK(cuCtxSetCurrent(context_));
}

TEST_F(ContextEventTest, WaitsAndRecordsFollowEachOther) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  Stream stream;
  Event after;
  Words words(16);
  words.write(all(16, 1));
  {
    Held held(function("gate"));
    ASSERT_OK(cuCtxWaitEvent(context_, held.event));
    ASSERT_OK(cuMemsetD32Async(words.at(), 3, 16, stream));
    ASSERT_OK(cuCtxRecordEvent(context_, after));
    ASSERT_OK(cuCtxWaitEvent(context_, after));
    EXPECT_CU(cuEventQuery(after), CUDA_ERROR_NOT_READY);
  }
  ASSERT_OK(cuEventSynchronize(after));
  EXPECT_EQ(words.read(), all(16, 3));
  Event never;  // recorded: waiting for it is no waiting
  ASSERT_OK(cuCtxWaitEvent(context_, never));
  ASSERT_OK(cuStreamSynchronize(stream));
}

TEST_F(ContextEventTest, BadArguments) {
  Event event;
  CUcontext other = nullptr;
  CUevent foreign = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  ASSERT_OK(cuEventCreate(&foreign, 0));
  ASSERT_OK(cuCtxSetCurrent(context_));
  EXPECT_CU(cuCtxRecordEvent(context_, foreign), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuCtxWaitEvent(context_, foreign));
  EXPECT_CU(cuCtxRecordEvent(context_, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuCtxWaitEvent(context_, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuCtxRecordEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxWaitEvent(nullptr, event), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxWaitEvent(garbage_handle<CUcontext>(), event), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuCtxDestroy_v2(other));
  EXPECT_CU(cuCtxWaitEvent(other, event), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextEventTest, CapturesForbidThem) {
  Stream stream;
  Event event, captured;
  CUgraph graph = nullptr;
  for (int record = 0; record < 2; ++record) {
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    if (record == 1) {
      EXPECT_CU(cuCtxRecordEvent(context_, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    } else {
      EXPECT_CU(cuCtxWaitEvent(context_, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  // An event of a capture of another context.
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  ASSERT_OK(cuCtxSetCurrent(context_));
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ASSERT_OK(cuEventRecord(captured, stream));
  EXPECT_CU(cuCtxWaitEvent(other, captured), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_CU(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_OK(cuCtxRecordEvent(context_, captured));  // is the context's from now on
  EXPECT_OK(cuCtxWaitEvent(other, captured));
  EXPECT_OK(cuCtxDestroy_v2(other));
}

}  // namespace
}  // namespace vgpu::conformance
