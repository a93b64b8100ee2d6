// Who waits for whom: a stream that is stuck, and full, holds up nobody but those who use it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string_view>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using std::chrono::seconds;

// More than any driver keeps of one stream.
constexpr uint32_t kDeep = 5000;
constexpr std::chrono::milliseconds kAWhile(300);
constexpr seconds kSoon(20);  // far longer than anything here takes that is not stuck

class ProgressTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!HasFatalFailure()) add_ = function("add");
  }
  // Launches add(words, n, 1) `count` times, as fast as the stream takes them.
  void add_ones(CUstream stream, const Words& words, uint32_t count) {
    CUdeviceptr data = words.at();
    uint32_t n = 1, one = 1;
    void* params[] = {&data, &n, &one};
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_OK(cuLaunchKernel(add_, 1, 1, 1, 32, 1, 1, 0, stream, params, nullptr));
    }
  }
  // Runs calls that only queue work, on a thread: a driver with short queues may block it. False
  // when that has happened.
  bool queued(std::future<void>* calls) {
    const char* contrary = std::getenv("VGPU_SOFTGPU_CONTRARY");
    const bool short_queues =
        contrary != nullptr && std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "direct";
    const bool done = calls->wait_for(short_queues ? kAWhile : kSoon) == std::future_status::ready;
    EXPECT_TRUE(done || short_queues);
    return done;
  }
  std::future<void> aside(std::function<void()> calls) {
    return std::async(std::launch::async, [this, calls = std::move(calls)] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      calls();
    });
  }

  CUfunction add_ = nullptr;
};

// `work` returns by itself, without the gate's help.
#define EXPECT_SOON(work)                                     \
  do {                                                        \
    auto done_ = std::async(std::launch::async, [&] {         \
      EXPECT_OK(cuCtxSetCurrent(context_));                   \
      work;                                                   \
    });                                                       \
    if (done_.wait_for(kSoon) != std::future_status::ready) { \
      ADD_FAILURE() << "held up: " #work;                     \
      gate.open();                                            \
    }                                                         \
  } while (false)

TEST_F(ProgressTest, AFullStreamHoldsNoOtherStreamUp) {
  Stream stuck, free_stream;
  const Words sum(1), other(1000);
  sum.write({0});
  {
    Gate gate(function("gate"), stuck);
    auto filler = aside([&] { add_ones(stuck, sum, kDeep); });
    (void)filler.wait_for(kAWhile);  // it fills the stream, and blocks
    for (int round = 0; round < 3; ++round) {
      EXPECT_SOON(EXPECT_EQ(launch("fill", free_stream, other.at(), 1000, 7), CUDA_SUCCESS));
      EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(free_stream)));
      std::vector<uint32_t> out(1000);
      EXPECT_SOON(EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), other.at(), 4000, free_stream)));
      EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(free_stream)));
      EXPECT_EQ(out, std::vector<uint32_t>(1000, 7));
      EXPECT_SOON(EXPECT_CU(cuStreamQuery(stuck), CUDA_ERROR_NOT_READY));
    }
    gate.open();
    filler.get();
    EXPECT_OK(cuStreamSynchronize(stuck));
  }
  EXPECT_EQ(sum.read(), std::vector<uint32_t>(1, kDeep));
}

TEST_F(ProgressTest, AFullStreamsEventsStandWhereTheyWereRecorded) {
  Stream stuck, second, third;
  const Event event(CU_EVENT_DISABLE_TIMING), middle(CU_EVENT_DISABLE_TIMING);
  const Words sum(1), copy(1);
  sum.write({0});
  copy.write({0});
  {
    Gate gate(function("gate"), stuck);
    auto calls = aside([&] {
      add_ones(stuck, sum, 700);
      EXPECT_OK(cuEventRecord(event, stuck));
      EXPECT_OK(cuStreamWaitEvent(second, event, 0));
      EXPECT_OK(cuMemcpyDtoDAsync_v2(copy.at(), sum.at(), 4, second));
      EXPECT_OK(cuEventRecord(middle, second));
      EXPECT_OK(cuStreamWaitEvent(stuck, middle, 0));
      add_ones(stuck, sum, 100);
    });
    if (queued(&calls)) {
      EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
      // Recorded again elsewhere: those who wait for the first record still do.
      EXPECT_OK(cuEventRecord(event, third));
      EXPECT_SOON(EXPECT_OK(cuEventSynchronize(event)));
      EXPECT_OK(cuEventQuery(event));
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
      EXPECT_CU(cuEventQuery(middle), CUDA_ERROR_NOT_READY);
    }
    gate.open();
    calls.get();
  }
  EXPECT_OK(cuEventSynchronize(middle));
  EXPECT_OK(cuStreamSynchronize(stuck));
  EXPECT_EQ(copy.read(), std::vector<uint32_t>(1, 700));
  EXPECT_EQ(sum.read(), std::vector<uint32_t>(1, 800));
}

TEST_F(ProgressTest, AContextsEventIsBehindWhatAFullStreamHolds) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  Stream stuck, second;
  const Event event(CU_EVENT_DISABLE_TIMING);
  const Words sum(1), copy(1);
  sum.write({0});
  copy.write({0});
  {
    Gate gate(function("gate"), stuck);
    auto calls = aside([&] {
      add_ones(stuck, sum, 700);
      EXPECT_OK(cuCtxRecordEvent(context_, event));
      EXPECT_OK(cuCtxWaitEvent(context_, event));
      EXPECT_OK(cuMemcpyDtoDAsync_v2(copy.at(), sum.at(), 4, second));
    });
    if (queued(&calls)) {
      EXPECT_CU(cuEventQuery(event), CUDA_ERROR_NOT_READY);
      EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    }
    gate.open();
    calls.get();
  }
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuStreamSynchronize(second));
  EXPECT_EQ(copy.read(), std::vector<uint32_t>(1, 700));
}

TEST_F(ProgressTest, TheLegacyStreamKeepsItsOrderWithAFullStream) {
  Stream stuck(CU_STREAM_DEFAULT), second(CU_STREAM_DEFAULT), apart;
  const Words sum(1), other(1), between(1);
  sum.write({0});
  {
    Gate gate(function("gate"), stuck);
    auto calls = aside([&] {
      add_ones(stuck, sum, 700);
      EXPECT_OK(cuMemcpyDtoDAsync_v2(between.at(), sum.at(), 4, CU_STREAM_LEGACY));
      add_ones(second, sum, 50);
    });
    const bool all_queued = queued(&calls);
    EXPECT_SOON(EXPECT_EQ(launch("fill", apart, other.at(), 1, 3), CUDA_SUCCESS));
    EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(apart)));
    if (all_queued) EXPECT_CU(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    gate.open();
    calls.get();
    EXPECT_OK(cuCtxSynchronize());
  }
  EXPECT_EQ(between.read(), std::vector<uint32_t>(1, 700));
  EXPECT_EQ(sum.read(), std::vector<uint32_t>(1, 750));
  EXPECT_EQ(other.read(), std::vector<uint32_t>(1, 3));
}

TEST_F(ProgressTest, AFullStreamMayBeDestroyed) {
  const Words sum(1);
  sum.write({0});
  CUstream stuck = nullptr;
  ASSERT_OK(cuStreamCreate(&stuck, CU_STREAM_NON_BLOCKING));
  Stream holder;
  {
    Gate gate(function("gate"), holder);
    const Event held(CU_EVENT_DISABLE_TIMING);
    EXPECT_OK(cuEventRecord(held, holder));
    EXPECT_OK(cuStreamWaitEvent(stuck, held, 0));
    auto calls = aside([&] {
      add_ones(stuck, sum, 900);
      EXPECT_OK(cuStreamDestroy_v2(stuck));
    });
    (void)queued(&calls);
    gate.open();
    calls.get();
  }
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(sum.read(), std::vector<uint32_t>(1, 900));
}

TEST_F(ProgressTest, ACopyOutBehindALongKernelHoldsNoOtherStreamUp) {
  Stream stuck, free_stream;
  const Words words(64), other(64);
  words.write(std::vector<uint32_t>(64, 5));
  std::vector<uint32_t> out(64);
  Gate gate(function("gate"), stuck);
  auto copy = aside([&] {
    EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), words.at(), 256, stuck));
    EXPECT_OK(cuStreamSynchronize(stuck));
  });
  EXPECT_EQ(copy.wait_for(kAWhile), std::future_status::timeout);
  EXPECT_SOON(EXPECT_EQ(launch("fill", free_stream, other.at(), 64, 9), CUDA_SUCCESS));
  EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(free_stream)));
  gate.open();
  copy.get();
  EXPECT_EQ(out, std::vector<uint32_t>(64, 5));
}

// Copies of pageable memory share what they pass through with those of a stream that is stuck, and
// come back to what that one holds.
constexpr size_t kSlab = 16 << 20;

TEST_F(ProgressTest, CopiesToOneStuckStreamHoldNoOthersUp) {
  constexpr size_t kMuch = kSlab + (1 << 20), kRowBytes = 6000, kPitch = 8192, kRows = 64;
  Stream stuck, free_stream;
  const Words held(20'000), other(kMuch / 4), rows(kPitch * kRows / 4);
  const std::vector<uint32_t> few(held.bytes() / 4, 3), much(kMuch / 4, 4);
  CUDA_MEMCPY2D box = {};
  box.srcMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = much.data();
  box.srcPitch = kRowBytes;
  box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  box.dstDevice = rows.at();
  box.dstPitch = kPitch;
  box.WidthInBytes = kRowBytes;
  box.Height = kRows;
  std::future<void> copy;
  {
    Gate gate(function("gate"), stuck);
    copy =
        aside([&] { EXPECT_OK(cuMemcpyHtoDAsync_v2(held.at(), few.data(), held.bytes(), stuck)); });
    (void)copy.wait_for(kAWhile);  // a driver may block it
    EXPECT_SOON(EXPECT_OK(cuMemcpyHtoDAsync_v2(other.at(), much.data(), kMuch, free_stream)));
    EXPECT_SOON(EXPECT_OK(cuMemcpy2DAsync_v2(&box, free_stream)));
    EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(free_stream)));
    EXPECT_CU(cuStreamQuery(stuck), CUDA_ERROR_NOT_READY);
    gate.open();
    copy.get();
  }
  EXPECT_EQ(held.read(), few);
  EXPECT_EQ(other.read(), much);
  const std::vector<uint32_t> all = rows.read();
  for (size_t row = 0; row < kRows; ++row) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(row * kPitch / 4);
    EXPECT_TRUE(std::all_of(begin, begin + kRowBytes / 4, [](uint32_t w) { return w == 4; }));
  }
}

TEST_F(ProgressTest, CopiesFromOneStuckStreamHoldNoOthersUp) {
  constexpr size_t kMuch = kSlab / 2, kRounds = 3;
  Stream stuck, free_stream;
  const Words held(200'000), other(kMuch / 4);
  const std::vector<uint32_t> few(held.bytes() / 4, 3), much(kMuch / 4, 4);
  held.write(few);
  other.write(much);
  std::vector<uint32_t> out(few.size()), more(much.size());
  Gate gate(function("gate"), stuck);
  auto copy = aside([&] {
    EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), held.at(), held.bytes(), stuck));
    EXPECT_OK(cuStreamSynchronize(stuck));
  });
  EXPECT_EQ(copy.wait_for(kAWhile), std::future_status::timeout);
  for (size_t round = 0; round < kRounds; ++round) {
    EXPECT_SOON(EXPECT_OK(cuMemcpyDtoHAsync_v2(more.data(), other.at(), kMuch, free_stream)));
    EXPECT_SOON(EXPECT_OK(cuStreamSynchronize(free_stream)));
  }
  EXPECT_EQ(more, much);
  gate.open();
  copy.get();
  EXPECT_EQ(out, few);
}

TEST_F(ProgressTest, EndingOneContextHoldsNoOtherUp) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  CUcontext second = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&second, 0, device_));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  CUfunction wait = nullptr;
  ASSERT_OK(cuModuleGetFunction(&wait, module, "gate"));
  ASSERT_OK(cuCtxSetCurrent(context_));
  // The gate's memory is the first context's, so that it outlives the second.
  void* memory = nullptr;
  ASSERT_OK(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  struct Opener {
    uint32_t* flag;
    void open() const { __atomic_store_n(flag, 1, __ATOMIC_RELEASE); }
  } gate{static_cast<uint32_t*>(memory)};
  *gate.flag = 0;
  CUdeviceptr address = 0;
  ASSERT_OK(cuMemHostGetDevicePointer_v2(&address, memory, 0));
  ASSERT_OK(cuCtxSetCurrent(second));
  void* params[] = {&address};
  ASSERT_OK(cuLaunchKernel(wait, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  auto ending = std::async(std::launch::async, [second] { EXPECT_OK(cuCtxDestroy_v2(second)); });
  ASSERT_OK(cuCtxSetCurrent(context_));
  (void)ending.wait_for(kAWhile);
  const Words words(100);
  EXPECT_SOON(EXPECT_EQ(launch("fill", nullptr, words.at(), 100, 4), CUDA_SUCCESS));
  EXPECT_SOON(EXPECT_OK(cuCtxSynchronize()));
  EXPECT_SOON(EXPECT_EQ(words.read(), std::vector<uint32_t>(100, 4)));
  gate.open();
  ending.get();
  EXPECT_OK(cuMemFreeHost(memory));
}

// Computes until a word is set, which it reads like any other: no loop that says that it waits.
const char kUntil[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry until(.param .u64 flag, .param .u64 out)
{
  .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [flag];
  ld.param.u64 %rd1, [out];
  mov.u32 %r0, %tid.x;
again:
  mad.lo.u32 %r0, %r0, 1664525, 1013904223;
  st.global.u32 [%rd1], %r0;
  ld.global.u32 %r1, [%rd0];
  setp.eq.u32 %p, %r1, 0;
  @%p bra again;
  ret;
}
)";

// As kernels of different streams do where they fit side by side. Hardware may keep the word in a
// cache for ever.
TEST_F(ProgressTest, AKernelThatComputesLetsALaterOneOfAnotherStreamEndIt) {
  if (std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "cuda")
    GTEST_SKIP() << "the word may stay in a cache";
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kUntil));
  CUfunction until = nullptr;
  ASSERT_OK(cuModuleGetFunction(&until, module, "until"));
  {
    Stream computing, other;
    const Words flag(1), out(1);
    flag.write({0});
    CUdeviceptr flag_at = flag.at(), out_at = out.at();
    void* params[] = {&flag_at, &out_at};
    EXPECT_OK(cuLaunchKernel(until, 64, 1, 1, 64, 1, 1, 0, computing, params, nullptr));
    EXPECT_CU(cuStreamQuery(computing), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(launch("fill", other, flag.at(), 1, 1), CUDA_SUCCESS);
    auto done = std::async(std::launch::async, [&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      EXPECT_OK(cuStreamSynchronize(computing));
    });
    ASSERT_EQ(done.wait_for(kSoon), std::future_status::ready) << "nobody set the word";
  }
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(ProgressTest, SynchronizingOneContextDoesNotWaitForAnother) {
  Stream stuck;
  Gate gate(function("gate"), stuck);
  CUcontext second = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&second, 0, device_));
  auto other = std::async(std::launch::async, [second] {
    EXPECT_OK(cuCtxSetCurrent(second));
    CUdeviceptr data = 0;
    EXPECT_OK(cuMemAlloc_v2(&data, 4096));
    EXPECT_OK(cuMemsetD8Async(data, 1, 4096, nullptr));
    EXPECT_OK(cuCtxSynchronize());
  });
  EXPECT_EQ(other.wait_for(kSoon), std::future_status::ready);
  gate.open();
  other.get();
  EXPECT_OK(cuCtxDestroy_v2(second));
  EXPECT_OK(cuCtxSetCurrent(context_));
}

}  // namespace
}  // namespace vgpu::conformance
