// Events: states, time, order, handles that are none.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using EventTest = KernelTest;

TEST_F(EventTest, Create) {
  CUevent event = nullptr;
  EXPECT_CU(cuEventCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuEventCreate(&event, 0xff00), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
  EXPECT_OK(cuEventDestroy_v2(event));
}

TEST_F(EventTest, UnrecordedIsComplete) {
  const Event event;
  EXPECT_OK(cuEventQuery(event));
  EXPECT_OK(cuEventSynchronize(event));
}

TEST_F(EventTest, StaleAndGarbageHandles) {
  CUevent stale = nullptr;
  ASSERT_OK(cuEventCreate(&stale, 0));
  ASSERT_OK(cuEventDestroy_v2(stale));
  for (CUevent wrong : {stale, garbage_handle<CUevent>(), CUevent{nullptr}}) {
    EXPECT_CU(cuEventQuery(wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventSynchronize(wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventRecord(wrong, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventDestroy_v2(wrong), CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_F(EventTest, NotReadyUntilTheWorkBeforeItIsDone) {
  Stream stream;
  const Event event;
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_OK(cuEventSynchronize(event));
  }
  EXPECT_OK(cuEventQuery(event));
}

TEST_F(EventTest, RecordAgainMeansTheLaterPlace) {
  Stream stream;
  const Event event;
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_OK(cuEventSynchronize(event));
  Gate gate(function("gate"), stream);
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
}

TEST_F(EventTest, WaitMeansTheRecordBeforeIt) {
  Stream first, second;
  const Event event;
  EXPECT_OK(cuEventRecord(event, first));
  EXPECT_OK(cuStreamWaitEvent(second, event, 0));
  Gate gate(function("gate"), first);
  EXPECT_OK(cuEventRecord(event, first));
  EXPECT_OK(cuStreamSynchronize(second));  // waits for the first record only
  EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
}

TEST_F(EventTest, ElapsedTime) {
  Stream stream;
  const Event begin, end;
  EXPECT_OK(cuEventRecord(begin, stream));
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuEventRecord(end, stream));
    float early = 0;
    EXPECT_CU(cuEventElapsedTime_v2(&early, begin, end), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuEventSynchronize(end));
  float there = -1, back = -1, none = -1;
  EXPECT_OK(cuEventElapsedTime_v2(&there, begin, end));
  EXPECT_OK(cuEventElapsedTime_v2(&back, end, begin));
  EXPECT_OK(cuEventElapsedTime_v2(&none, begin, begin));
  EXPECT_GT(there, 0);
  EXPECT_FLOAT_EQ(back, -there);
  EXPECT_EQ(none, 0);
}

TEST_F(EventTest, ElapsedTimeRefusals) {
  const Event begin, end, untimed(CU_EVENT_DISABLE_TIMING);
  float time = 0;
  EXPECT_CU(cuEventElapsedTime_v2(&time, begin, end), CUDA_ERROR_INVALID_HANDLE);  // unrecorded
  EXPECT_OK(cuEventRecord(begin, nullptr));
  EXPECT_CU(cuEventElapsedTime_v2(&time, begin, end), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_OK(cuEventRecord(untimed, nullptr));
  EXPECT_OK(cuEventSynchronize(untimed));
  EXPECT_CU(cuEventElapsedTime_v2(&time, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuEventElapsedTime_v2(nullptr, begin, begin), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(EventTest, OtherContextsStreamIsRefused) {
  const Event event;
  CUcontext other = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&other, 0, device_));
  {
    Stream stream;
    EXPECT_CU(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    // Waiting across contexts of one device is allowed.
    EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
  }
  EXPECT_OK(cuCtxDestroy_v2(other));
}

TEST_F(EventTest, DestroyedWhilePending) {
  Stream first, second;
  const Words words(10);
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  {
    Gate gate(function("gate"), first);
    EXPECT_OK(cuEventRecord(event, first));
    EXPECT_OK(cuStreamWaitEvent(second, event, 0));
    EXPECT_OK(cuEventDestroy_v2(event));
    EXPECT_OK(cuMemsetD32Async(words.at(), 4, 10, second));
    EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(10, 4));
}

TEST_F(EventTest, RecordWithFlags) {
  const Event event;
  EXPECT_OK(cuEventRecordWithFlags(event, nullptr, CU_EVENT_RECORD_DEFAULT));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_CU(cuEventRecordWithFlags(event, nullptr, 0x80), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(EventTest, SynchronizedFromAnotherThread) {
  Stream stream;
  const Event event(CU_EVENT_BLOCKING_SYNC);
  Gate gate(function("gate"), stream);
  EXPECT_OK(cuEventRecord(event, stream));
  std::thread waiter([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuEventQuery(event));
  });
  gate.open();
  waiter.join();
}

}  // namespace
}  // namespace vgpu::conformance
