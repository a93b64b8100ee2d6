// Host functions and stream callbacks: where they run, what waits for them, what they may do.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

// A host function that a test can hold.
class Barrier {
 public:
  static void CUDA_CB enter(void* self) { static_cast<Barrier*>(self)->wait(); }
  void open() { open_.store(true); }
  bool entered() const { return entered_.load(); }

 private:
  void wait() {
    entered_.store(true);
    while (!open_.load()) ::poll(nullptr, 0, 1);
  }
  std::atomic<bool> open_{false}, entered_{false};
};

// Any callable as a host function.
void CUDA_CB call(void* function) { (*static_cast<std::function<void()>*>(function))(); }

struct Told {
  CUstream stream = nullptr;
  std::atomic<int> status{-1};
  std::atomic<int> calls{0};
  static void CUDA_CB enter(CUstream stream, CUresult status, void* self) {
    auto* told = static_cast<Told*>(self);
    told->stream = stream;
    told->status.store(status);
    told->calls.fetch_add(1);
  }
};

class CallbackTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    void* memory = nullptr;
    ASSERT_OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    pinned_ = static_cast<uint32_t*>(memory);
  }
  void TearDown() override {
    EXPECT_OK(cuMemFreeHost(pinned_));
    KernelTest::TearDown();
  }
  uint32_t* pinned_ = nullptr;
};

TEST_F(CallbackTest, RunsBetweenTheWorkBeforeAndBehindIt) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    const Words words(64), out(64);
    const std::thread::id here = std::this_thread::get_id();
    bool elsewhere = false;
    uint32_t seen = 0;
    std::function<void()> function = [&] {
      elsewhere = std::this_thread::get_id() != here;
      seen = pinned_[63];
      for (uint32_t i = 0; i < 64; ++i) pinned_[i] = 100 + i;
    };
    ASSERT_EQ(launch("fill", stream, words.at(), 64, 7), CUDA_SUCCESS);
    ASSERT_OK(cuMemcpyDtoHAsync_v2(pinned_, words.at(), 256, stream));
    ASSERT_OK(cuLaunchHostFunc(stream, call, &function));
    ASSERT_OK(cuMemcpyHtoDAsync_v2(out.at(), pinned_, 256, stream));
    ASSERT_EQ(launch("add", stream, out.at(), 64, 1), CUDA_SUCCESS);
    ASSERT_OK(cuStreamSynchronize(stream));
    EXPECT_TRUE(elsewhere);
    EXPECT_EQ(seen, 7U);
    EXPECT_EQ(out.read()[63], 164U);
  }
}

TEST_F(CallbackTest, ManyInOrder) {
  constexpr int kStreams = 3, kCalls = 400;
  struct Call {
    std::vector<int>* seen;
    int number;
    static void CUDA_CB enter(void* self) {
      const auto* call = static_cast<Call*>(self);
      call->seen->push_back(call->number);
    }
  };
  Stream streams[kStreams];
  std::vector<int> seen[kStreams], order;
  std::vector<Call> calls[kStreams];
  for (int i = 0; i < kCalls; ++i) order.push_back(i);
  for (int s = 0; s < kStreams; ++s) {
    for (const int i : order) calls[s].push_back({&seen[s], i});
  }
  const Words words(16);
  words.write(std::vector<uint32_t>(16, 0));
  for (int i = 0; i < kCalls; ++i) {
    for (int s = 0; s < kStreams; ++s) {
      ASSERT_OK(cuLaunchHostFunc(streams[s], Call::enter, &calls[s][i]));
    }
    ASSERT_EQ(launch("add", streams[0], words.at(), 16, 1), CUDA_SUCCESS);
  }
  ASSERT_OK(cuCtxSynchronize());
  for (const std::vector<int>& each : seen) EXPECT_EQ(each, order);
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, kCalls));
}

// A copy reads pinned memory when its stream is there, also such as the program has registered.
TEST_F(CallbackTest, WhatTheyWriteIsCopiedBehindThem) {
  constexpr size_t kCount = 1024;
  std::vector<uint32_t> own(kCount + 2048);
  auto* const page = reinterpret_cast<uint32_t*>((reinterpret_cast<uintptr_t>(own.data()) + 4095) &
                                                 ~uintptr_t{4095});
  ASSERT_OK(cuMemHostRegister_v2(page, 4096, CU_MEMHOSTREGISTER_PORTABLE));
  for (uint32_t* memory : {pinned_, page}) {
    const Words words(kCount), rows(kCount);
    Stream stream;
    for (uint32_t round = 1; round <= 4; ++round) {
      std::function<void()> function = [&] {
        ::poll(nullptr, 0, 20);  // so that a copy that does not wait has read by then
        std::fill_n(memory, kCount, round);
      };
      std::fill_n(memory, kCount, 0u);
      ASSERT_OK(cuLaunchHostFunc(stream, call, &function));
      ASSERT_OK(cuMemcpyHtoDAsync_v2(words.at(), memory, kCount * 4, stream));
      CUDA_MEMCPY2D plane{};
      plane.srcMemoryType = CU_MEMORYTYPE_HOST;
      plane.srcHost = memory;
      plane.srcPitch = 128;
      plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      plane.dstDevice = rows.at();
      plane.dstPitch = 128;
      plane.WidthInBytes = 64;
      plane.Height = kCount / 32;
      ASSERT_OK(cuMemcpy2DAsync_v2(&plane, stream));
      ASSERT_OK(cuStreamSynchronize(stream));
      EXPECT_EQ(words.read()[kCount - 1], round);
      EXPECT_EQ(rows.read()[kCount - 32], round);
    }
  }
  EXPECT_OK(cuMemHostUnregister(page));
}

TEST_F(CallbackTest, WhoWaitsForTheStreamWaitsForIt) {
  Stream stream, other;
  Event event;
  const Words words(16), free(16);
  ASSERT_OK(cuMemsetD32_v2(words.at(), 0, 16));
  for (const int way : {0, 1, 2, 3}) {
    Barrier barrier;
    ASSERT_OK(cuLaunchHostFunc(stream, Barrier::enter, &barrier));
    ASSERT_EQ(launch("add", stream, words.at(), 16, 1), CUDA_SUCCESS);
    ASSERT_OK(cuEventRecord(event, stream));
    while (!barrier.entered()) ::poll(nullptr, 0, 1);
    // Other streams go on meanwhile.
    ASSERT_EQ(launch("fill", other, free.at(), 16, 3), CUDA_SUCCESS);
    ASSERT_OK(cuStreamSynchronize(other));
    EXPECT_CU(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    std::thread opener([&barrier] {
      ::poll(nullptr, 0, 20);
      barrier.open();
    });
    switch (way) {
      case 0:
        EXPECT_OK(cuStreamSynchronize(stream));
        break;
      case 1:
        EXPECT_OK(cuEventSynchronize(event));
        break;
      case 2:
        EXPECT_OK(cuCtxSynchronize());
        break;
      default:
        EXPECT_OK(cuStreamWaitEvent(other, event, 0));
        EXPECT_OK(cuStreamSynchronize(other));
        break;
    }
    EXPECT_OK(cuEventQuery(event));
    opener.join();
  }
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 4));
}

TEST_F(CallbackTest, TheDefaultStreamWaitsForThoseOfBlockingStreams) {
  Stream blocking(CU_STREAM_DEFAULT);
  const Words words(16);
  Barrier barrier;
  ASSERT_OK(cuLaunchHostFunc(blocking, Barrier::enter, &barrier));
  ASSERT_EQ(launch("fill", nullptr, words.at(), 16, 5), CUDA_SUCCESS);
  EXPECT_CU(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  barrier.open();
  ASSERT_OK(cuStreamSynchronize(nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 5));
}

TEST_F(CallbackTest, CallsAreNotPermittedInside) {
  Stream stream, other;
  Event event;
  const Words words(4);
  std::vector<CUresult> results;
  std::function<void()> function = [&] {
    CUdeviceptr address = 0;
    uint32_t word = 0;
    const DriverTable& cuda = driver();
    results = {cuda.cuMemAlloc_v2(&address, 4),
               cuda.cuStreamSynchronize(other),
               cuda.cuStreamQuery(other),
               cuda.cuStreamDestroy_v2(other),
               cuda.cuEventRecord(event, other),
               cuda.cuEventSynchronize(event),
               cuda.cuMemcpyDtoH_v2(&word, words.at(), 4),
               cuda.cuLaunchHostFunc(other, call, nullptr),
               cuda.cuCtxSynchronize()};
  };
  ASSERT_OK(cuLaunchHostFunc(stream, call, &function));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(results, std::vector<CUresult>(9, CUDA_ERROR_NOT_PERMITTED));
  EXPECT_OK(cuStreamQuery(other));
}

TEST_F(CallbackTest, ACallbackIsToldItsStreamAndStatus) {
  Stream stream;
  for (CUstream each : {CUstream{stream}, CUstream{nullptr}, CU_STREAM_PER_THREAD}) {
    Told told;
    ASSERT_OK(cuStreamAddCallback(each, Told::enter, &told, 0));
    ASSERT_OK(cuStreamSynchronize(each));
    EXPECT_EQ(told.calls.load(), 1);
    EXPECT_EQ(told.stream, each);
    EXPECT_EQ(told.status.load(), CUDA_SUCCESS);
  }
}

TEST_F(CallbackTest, ADestroyedStreamStillRunsThem) {
  Barrier barrier;
  Told told;
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuLaunchHostFunc(stream, Barrier::enter, &barrier));
  ASSERT_OK(cuStreamAddCallback(stream, Told::enter, &told, 0));
  ASSERT_OK(cuStreamDestroy_v2(stream));
  EXPECT_EQ(told.calls.load(), 0);
  barrier.open();
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(told.calls.load(), 1);
}

TEST_F(CallbackTest, BadArguments) {
  Told told;
  std::function<void()> nothing = [] {};
  EXPECT_CU(cuLaunchHostFunc(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamAddCallback(nullptr, nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuStreamAddCallback(nullptr, Told::enter, &told, 1), CUDA_ERROR_INVALID_VALUE);
  const auto garbage = garbage_handle<CUstream>();
  EXPECT_CU(cuLaunchHostFunc(garbage, call, &nothing), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuStreamAddCallback(garbage, Told::enter, &told, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(told.calls.load(), 0);
}

TEST_F(CallbackTest, FromManyThreads) {
  constexpr int kThreads = 8, kCalls = 50;
  std::atomic<int> calls{0};
  std::function<void()> function = [&calls] { calls.fetch_add(1); };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      for (int i = 0; i < kCalls; ++i) {
        EXPECT_OK(cuLaunchHostFunc(CU_STREAM_PER_THREAD, call, &function));
      }
      EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls.load(), kThreads * kCalls);
}

TEST_F(CallbackTest, InABrokenContext) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  EXPECT_EQ(run_in_fresh_process("CallbackChildTest.DISABLED_InABrokenContext"), 0);
}

// After the fault callbacks are called with the error, host functions are not.
TEST(CallbackChildTest, DISABLED_InABrokenContext) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction poke = nullptr, gate = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&poke, module, "poke"));
  ASSERT_OK(cuModuleGetFunction(&gate, module, "gate"));
  Told told;
  std::atomic<int> functions{0};
  std::function<void()> function = [&functions] { functions.fetch_add(1); };
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* memory = nullptr;
  ASSERT_OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
  auto* flag = static_cast<uint32_t*>(memory);
  *flag = 0;
  CUdeviceptr flag_address = 0, nowhere = kNowhere;
  ASSERT_OK(cuMemHostGetDevicePointer_v2(&flag_address, memory, 0));
  void* gate_params[] = {&flag_address};
  void* poke_params[] = {&nowhere};
  ASSERT_OK(cuLaunchKernel(gate, 1, 1, 1, 1, 1, 1, 0, stream, gate_params, nullptr));
  ASSERT_OK(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, stream, poke_params, nullptr));
  ASSERT_OK(cuLaunchHostFunc(stream, call, &function));
  ASSERT_OK(cuStreamAddCallback(stream, Told::enter, &told, 0));
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  EXPECT_CU(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  for (int i = 0; i < 2000 && told.calls.load() == 0; ++i) ::poll(nullptr, 0, 1);
  EXPECT_EQ(told.calls.load(), 1);
  EXPECT_EQ(told.status.load(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(functions.load(), 0);
  EXPECT_CU(cuLaunchHostFunc(stream, call, &function), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(CallbackTest, TheProcessEndsAllTheSame) {
  EXPECT_EQ(run_in_fresh_process("CallbackChildTest.DISABLED_EndsInTheMidst"), 0);
}

// The process ends while a stream waits to run a function, and has forked before.
TEST(CallbackChildTest, DISABLED_EndsInTheMidst) {
  CUcontext context = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  static std::function<void()> function = [] { ::poll(nullptr, 0, 50); };
  for (int i = 0; i < 20; ++i) ASSERT_OK(cuLaunchHostFunc(CU_STREAM_LEGACY, call, &function));
  const pid_t child = ::fork();
  if (child == 0) {
    const CUresult result = driver().cuLaunchHostFunc(CU_STREAM_LEGACY, call, &function);
    ::_exit(result == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(CallbackTest, AFunctionMayEndTheProcess) {
  EXPECT_EQ(run_in_fresh_process("CallbackChildTest.DISABLED_EndsTheProcess"), 0);
}

// An error handler ends the program from inside of a function.
TEST(CallbackChildTest, DISABLED_EndsTheProcess) {
  CUcontext context = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  static std::function<void()> function = [] { std::exit(0); };
  ASSERT_OK(cuLaunchHostFunc(CU_STREAM_LEGACY, call, &function));
  for (;;) ::poll(nullptr, 0, 1000);
}

}  // namespace
}  // namespace vgpu::conformance
