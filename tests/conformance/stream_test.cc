// Streams: creation, order, waiting, the default streams, handles that are none.
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using StreamTest = KernelTest;

TEST_F(StreamTest, Create) {
  CUstream stream = nullptr;
  EXPECT_CU(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamCreate(&stream, 0xff), CUDA_ERROR_INVALID_VALUE);
  std::set<CUstream> seen;
  for (unsigned wanted : {unsigned{CU_STREAM_DEFAULT}, unsigned{CU_STREAM_NON_BLOCKING}}) {
    ASSERT_OK(cuStreamCreate(&stream, wanted));
    EXPECT_GT(reinterpret_cast<uintptr_t>(stream), 2U);
    EXPECT_TRUE(seen.insert(stream).second);
    unsigned flags = 99;
    EXPECT_OK(cuStreamGetFlags(stream, &flags));
    EXPECT_EQ(flags, wanted);
    EXPECT_OK(cuStreamQuery(stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  for (CUstream each : seen) EXPECT_OK(cuStreamDestroy_v2(each));
}

TEST_F(StreamTest, StaleAndGarbageHandles) {
  CUstream stale = nullptr;
  ASSERT_OK(cuStreamCreate(&stale, 0));
  ASSERT_OK(cuStreamDestroy_v2(stale));
  const Event event;
  unsigned flags = 0;
  for (CUstream wrong : {stale, garbage_handle<CUstream>()}) {
    EXPECT_CU(cuStreamDestroy_v2(wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamQuery(wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamSynchronize(wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamGetFlags(wrong, &flags), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuStreamWaitEvent(wrong, event, 0), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuEventRecord(event, wrong), CUDA_ERROR_INVALID_HANDLE);
  }
  EXPECT_CU(cuStreamDestroy_v2(nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, DefaultStreams) {
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamQuery(stream));
    const Words words(100);
    EXPECT_EQ(launch("fill", stream, words.at(), 100, 3), CUDA_SUCCESS);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(words.read(), std::vector<uint32_t>(100, 3));
  }
}

TEST_F(StreamTest, Priority) {
  int least = 0, greatest = 0;
  ASSERT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
  int priority = 99;
  EXPECT_OK(cuStreamGetPriority(stream, &priority));
  EXPECT_EQ(priority, greatest);
  EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(StreamTest, Belonging) {
  Stream first, second;
  CUcontext context = nullptr;
  EXPECT_OK(cuStreamGetCtx(first, &context));
  EXPECT_EQ(context, context_);
  unsigned long long a = 0, b = 0;  // NOLINT(google-runtime-int): the driver's type
  EXPECT_OK(cuStreamGetId(first, &a));
  EXPECT_OK(cuStreamGetId(second, &b));
  EXPECT_NE(a, b);
}

TEST_F(StreamTest, Device) {
  const Stream stream;
  CUdevice device = -1;
  EXPECT_OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(device, device_);
  EXPECT_CU(cuStreamGetDevice(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamGetDevice(garbage_handle<CUstream>(), &device), CUDA_ERROR_INVALID_HANDLE);
}

// cuStreamGetDevice_ptsz has no name of its own in the header: it is asked for.
TEST_F(StreamTest, DeviceOfThePerThreadStream) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  ASSERT_OK(cuGetProcAddress_v2("cuStreamGetDevice", &found, 12080,
                                CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
  const auto per_thread = reinterpret_cast<decltype(driver().cuStreamGetDevice)>(found);
  EXPECT_NE(found, reinterpret_cast<void*>(driver().cuStreamGetDevice));
  CUdevice device = -1;
  EXPECT_EQ(per_thread(nullptr, &device), CUDA_SUCCESS);
  EXPECT_EQ(device, device_);
  EXPECT_EQ(per_thread(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, BusyUntilTheGateOpens) {
  Stream stream;
  const Words words(10);
  {
    Gate gate(function("gate"), stream);
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_OK(cuMemsetD32Async(words.at(), 8, 10, stream));
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuStreamQuery(stream));
  }
  EXPECT_EQ(words.read(), std::vector<uint32_t>(10, 8));
}

TEST_F(StreamTest, IndependentStreamsPassEachOther) {
  Stream held, free_stream;
  Gate gate(function("gate"), held);
  const Words* words = nullptr;
  uint32_t* out = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&out), 64, CU_MEMHOSTALLOC_DEVICEMAP));
  const Words made(16);
  words = &made;
  EXPECT_OK(cuMemsetD32Async(words->at(), 6, 16, free_stream));
  EXPECT_OK(cuMemcpyDtoHAsync_v2(out, words->at(), 64, free_stream));
  EXPECT_OK(cuStreamSynchronize(free_stream));
  EXPECT_EQ(out[15], 6U);
  EXPECT_CU(cuStreamQuery(held), CUDA_ERROR_NOT_READY);
  gate.open();
  EXPECT_OK(cuStreamSynchronize(held));
  EXPECT_OK(cuMemFreeHost(out));
}

TEST_F(StreamTest, LegacyWaitsForBlockingStreamsOnly) {
  Stream blocking(CU_STREAM_DEFAULT), apart(CU_STREAM_NON_BLOCKING);
  const Words words(4);
  {
    Gate gate(function("gate"), blocking);
    EXPECT_OK(cuMemsetD32Async(words.at(), 1, 4, CU_STREAM_LEGACY));
    EXPECT_CU(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  }
  Gate gate(function("gate"), apart);
  EXPECT_OK(cuMemsetD32Async(words.at(), 2, 4, CU_STREAM_LEGACY));
  EXPECT_OK(cuStreamSynchronize(CU_STREAM_LEGACY));
  EXPECT_CU(cuStreamQuery(apart), CUDA_ERROR_NOT_READY);
  gate.open();
}

TEST_F(StreamTest, WaitEventOrdersAcrossStreams) {
  Stream first, second;
  const Event event(CU_EVENT_DISABLE_TIMING);
  const Words words(1000);
  words.write(std::vector<uint32_t>(1000, 0));
  {
    Gate gate(function("gate"), first);
    EXPECT_EQ(launch("fill", first, words.at(), 1000, 10), CUDA_SUCCESS);
    EXPECT_OK(cuEventRecord(event, first));
    EXPECT_OK(cuStreamWaitEvent(second, event, 0));
    EXPECT_EQ(launch("add", second, words.at(), 1000, 5), CUDA_SUCCESS);
    EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  }
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(1000, 15));
}

TEST_F(StreamTest, WaitForUnrecordedEventIsNoWait) {
  Stream stream;
  const Event event;
  EXPECT_OK(cuStreamWaitEvent(stream, event, 0));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_CU(cuStreamWaitEvent(stream, nullptr, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuStreamWaitEvent(stream, garbage_handle<CUevent>(), 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuStreamWaitEvent(stream, event, 0x80), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, DestroyLetsWorkFinish) {
  const Words words(100);
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0, 100));
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(launch("add", stream, words.at(), 100, 1), CUDA_SUCCESS);
  }
  EXPECT_OK(cuStreamDestroy_v2(stream));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(words.read(), std::vector<uint32_t>(100, 50));
}

TEST_F(StreamTest, PerThreadStreamsAreApart) {
  Gate gate(function("gate"), CU_STREAM_PER_THREAD);
  std::thread([this] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_OK(cuStreamQuery(CU_STREAM_PER_THREAD));
  }).join();
  EXPECT_CU(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
}

TEST_F(StreamTest, ManyCreatedAndDestroyed) {
  std::set<CUstream> all;
  for (int i = 0; i < 200; ++i) {
    CUstream stream = nullptr;
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_TRUE(all.insert(stream).second);
  }
  for (CUstream stream : all) EXPECT_OK(cuStreamDestroy_v2(stream));
}

TEST_F(StreamTest, OfNoGreenContext) {
  Stream stream;
  for (CUstream each :
       {CUstream(stream), CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    auto green = garbage_handle<CUgreenCtx>();
    ASSERT_OK(cuStreamGetGreenCtx(each, &green));
    EXPECT_EQ(green, nullptr);
  }
  EXPECT_CU(cuStreamGetGreenCtx(stream, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// What programs rely on, whatever takes its turns: the call has returned, so the bytes are there.
TEST_F(StreamTest, AStreamMadeAfterAnUploadSeesIt) {
  constexpr size_t kWords = size_t{6} << 20;
  constexpr uint32_t kLast = 1024;
  const Words words(kWords);
  for (uint32_t round = 1; round <= 8; ++round) {
    words.write(std::vector<uint32_t>(kWords, round));
    Stream stream;
    EXPECT_EQ(launch("add", stream, words.at(kWords - kLast), kLast, 1000), CUDA_SUCCESS);
    EXPECT_OK(cuStreamSynchronize(stream));
    std::vector<uint32_t> last(kLast);
    EXPECT_OK(cuMemcpyDtoH_v2(last.data(), words.at(kWords - kLast), 4 * kLast));
    EXPECT_EQ(last, std::vector<uint32_t>(kLast, 1000 + round));
  }
}

}  // namespace
}  // namespace vgpu::conformance
