// Threads: on one stream, on many, waiting beside each other, interrupted, ending early.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <functional>
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

constexpr int kThreads = 8;
constexpr int kCallsMin = 5000;  // so many times others must have met the one that destroys

class ThreadsTest : public KernelTest {
 protected:
  void run(int threads, const std::function<void(int)>& body) {
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) {
      all.emplace_back([&, i] {
        EXPECT_OK(cuCtxSetCurrent(context_));
        body(i);
      });
    }
    for (std::thread& each : all) each.join();
  }
};

TEST_F(ThreadsTest, ManyOnOneStream) {
  Stream stream;
  const Words words(256);
  words.write(std::vector<uint32_t>(256, 0));
  run(kThreads, [&](int) {
    for (int i = 0; i < 50; ++i) {
      EXPECT_EQ(launch("add", stream, words.at(), 256, 1), CUDA_SUCCESS);
      if (i % 10 == 0) EXPECT_OK(cuStreamSynchronize(stream));
    }
  });
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(256, 50 * kThreads));
}

TEST_F(ThreadsTest, ManyOnManyStreams) {
  run(kThreads, [&](int thread) {
    for (int round = 0; round < 10; ++round) {
      Stream stream;
      const Words words(500);
      EXPECT_OK(cuMemsetD32Async(words.at(), 1, 500, stream));
      EXPECT_EQ(launch("add", stream, words.at(), 500, static_cast<uint32_t>(thread)),
                CUDA_SUCCESS);
      std::vector<uint32_t> back(500);
      EXPECT_OK(cuMemcpyDtoHAsync_v2(back.data(), words.at(), words.bytes(), stream));
      EXPECT_OK(cuStreamSynchronize(stream));
      EXPECT_EQ(back, std::vector<uint32_t>(500, 1 + static_cast<uint32_t>(thread)));
    }
  });
}

TEST_F(ThreadsTest, AThreadMayEndBeforeItsWork) {
  // Each has words of its own: nothing orders the streams of two threads.
  constexpr size_t kRounds = 20, kEach = 100;
  const Words words(kRounds * kEach);
  words.write(std::vector<uint32_t>(kRounds * kEach, 0));
  for (size_t round = 0; round < kRounds; ++round) {
    run(1, [&](int) {
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(launch("add", CU_STREAM_PER_THREAD, words.at(round * kEach), kEach, 1),
                  CUDA_SUCCESS);
      }
    });
  }
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(words.read(), std::vector<uint32_t>(kRounds * kEach, 5));
}

// Who destroys what others use gets errors in those calls at worst; the context goes on.
TEST_F(ThreadsTest, EventsAreDestroyedWhileOthersQueryThem) {
  constexpr int kEvents = 64;
  Stream stream;
  std::atomic<CUevent> events[kEvents] = {};
  std::atomic<bool> done{false};
  std::atomic<int> calls{0};  // of the others
  const auto renew = [&](int i) {
    CUevent made = nullptr;
    EXPECT_OK(cuEventCreate(&made, 0));
    EXPECT_OK(cuEventRecord(made, stream));
    const CUevent old = events[i].exchange(made);
    if (old != nullptr) EXPECT_OK(cuEventDestroy_v2(old));
  };
  for (int i = 0; i < kEvents; ++i) renew(i);
  run(4, [&](int thread) {
    if (thread == 0) {
      for (int i = 0; calls < kCallsMin; ++i) {
        renew(i * 7 % kEvents);
        // A query now and then, or the others' calls queue behind a whole ring of these.
        if (i % kEvents == 0) (void)driver().cuStreamQuery(stream);
      }
      done = true;
      return;
    }
    while (!done) {
      for (auto& event : events) {
        const CUresult got =
            thread == 1 ? driver().cuEventSynchronize(event) : driver().cuEventQuery(event);
        ++calls;
        EXPECT_TRUE(got == CUDA_SUCCESS || got == CUDA_ERROR_NOT_READY ||
                    got == CUDA_ERROR_INVALID_HANDLE)
            << result_name(got);
      }
    }
  });
  for (auto& event : events) EXPECT_OK(cuEventDestroy_v2(event));
  EXPECT_OK(cuCtxSynchronize());
}

TEST_F(ThreadsTest, StreamsAreDestroyedWhileOthersUseThem) {
  std::atomic<CUstream> shared{nullptr};
  std::atomic<bool> done{false};
  std::atomic<int> calls{0};  // of the others
  const Words words(64);
  run(4, [&](int thread) {
    if (thread == 0) {
      while (calls < kCallsMin) {
        CUstream made = nullptr;
        EXPECT_OK(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
        const CUstream old = shared.exchange(made);
        if (old != nullptr) EXPECT_OK(cuStreamDestroy_v2(old));
        (void)driver().cuStreamQuery(nullptr);  // as above
      }
      done = true;
      return;
    }
    while (!done) {
      const CUstream stream = shared;
      if (stream == nullptr) continue;
      const CUresult got = thread == 1   ? launch("add", stream, words.at(), 64, 1)
                           : thread == 2 ? driver().cuMemsetD32Async(words.at(), 1, 64, stream)
                                         : driver().cuStreamSynchronize(stream);
      ++calls;
      EXPECT_TRUE(got == CUDA_SUCCESS || got == CUDA_ERROR_INVALID_HANDLE) << result_name(got);
    }
  });
  EXPECT_OK(cuStreamDestroy_v2(shared));
  EXPECT_OK(cuCtxSynchronize());
}

// Each allocation goes with a descriptor of its own: those of several threads must not be swapped.
TEST_F(ThreadsTest, HostMemoryIsMadeByManyAtOnce) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      for (uint32_t i = 0; i < 50; ++i) {
        void* host = nullptr;
        ASSERT_OK(cuMemHostAlloc(&host, 4096 * (1 + (i + t) % 3), CU_MEMHOSTALLOC_DEVICEMAP));
        ASSERT_OK(cuMemsetD32_v2(reinterpret_cast<CUdeviceptr>(host), t * 100 + i, 16));
        EXPECT_EQ(static_cast<uint32_t*>(host)[15], t * 100 + i);
        ASSERT_OK(cuMemFreeHost(host));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void take_no_notice(int) {}

TEST_F(ThreadsTest, SignalsInterruptNothing) {
  struct sigaction before = {}, action = {};
  action.sa_handler = take_no_notice;  // without SA_RESTART: system calls end with EINTR
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval often = {{0, 300}, {0, 300}}, never = {};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &often, nullptr), 0);
  Stream stream;
  const Words words(2000);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_OK(cuMemsetD32Async(words.at(), i, 2000, stream));
    EXPECT_EQ(launch("add", stream, words.at(), 2000, 1), CUDA_SUCCESS);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(words.read(), std::vector<uint32_t>(2000, i + 1));
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

// What one thread waits in while another works.
struct Wait {
  const char* name;
  // Waits for the work of `stream`, which is held, or for `event` behind it.
  CUresult (*call)(CUstream stream, CUevent event, CUdeviceptr data);
};

// Frees wait for the device, so everything that the work needs is there before and after.
class Waits : public ThreadsTest, public ::testing::WithParamInterface<Wait> {
 protected:
  // What must go on meanwhile, in another stream.
  void work(CUstream stream, const Words& words, uint32_t* back) {
    const Event event;
    size_t free_bytes = 0;
    CUdeviceptr more = 0;
    EXPECT_OK(cuMemGetInfo_v2(&free_bytes, nullptr));
    EXPECT_OK(cuMemAlloc_v2(&more, 4096));
    const uint32_t start = 4;
    EXPECT_OK(cuMemcpyHtoDAsync_v2(words.at(), &start, 4, stream));
    EXPECT_OK(cuMemsetD32Async(words.at(), 4, 100, stream));
    EXPECT_EQ(launch("add", stream, words.at(), 100, 3), CUDA_SUCCESS);
    EXPECT_OK(cuMemcpyDtoHAsync_v2(back, words.at(), 400, stream));
    EXPECT_OK(cuEventRecord(event, stream));
    EXPECT_OK(cuEventSynchronize(event));
    EXPECT_OK(cuStreamQuery(stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(back[99], 7U);
  }
};

TEST_P(Waits, DelayNobodyElse) {
  Stream held, other;
  const Event event;
  const Words data(16), words(100);
  ASSERT_OK(cuMemsetD32_v2(data.at(), 0, 16));
  void* back = nullptr;
  ASSERT_OK(cuMemAllocHost_v2(&back, 400));
  std::atomic<bool> waited{false}, late{false}, done{false};
  {
    Gate gate(function("gate"), held);
    EXPECT_OK(cuEventRecord(event, held));
    std::thread waiter([&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      EXPECT_EQ(GetParam().call(held, event, data.at()), CUDA_SUCCESS);
      waited = true;
    });
    std::thread watchdog([&] {
      for (int i = 0; i < 1000 && !done; ++i) {
        ::poll(nullptr, 0, 10);
      }
      late = !done;
      gate.open();
    });
    ::poll(nullptr, 0, 30);  // so that the waiter is in its call
    work(other, words, static_cast<uint32_t*>(back));
    EXPECT_FALSE(waited) << "it did not wait";
    done = true;
    watchdog.join();
    waiter.join();
  }
  EXPECT_FALSE(late) << "the other thread's work only went on once the gate was open";
  EXPECT_OK(cuMemFreeHost(back));
}

INSTANTIATE_TEST_SUITE_P(All, Waits,
                         ::testing::Values(Wait{"cuStreamSynchronize",
                                                [](CUstream stream, CUevent, CUdeviceptr) {
                                                  return driver().cuStreamSynchronize(stream);
                                                }},
                                           Wait{"cuEventSynchronize",
                                                [](CUstream, CUevent event, CUdeviceptr) {
                                                  return driver().cuEventSynchronize(event);
                                                }},
                                           Wait{"cuCtxSynchronize",
                                                [](CUstream, CUevent, CUdeviceptr) {
                                                  return driver().cuCtxSynchronize();
                                                }},
                                           Wait{"cuMemcpyDtoHAsync",
                                                [](CUstream stream, CUevent, CUdeviceptr data) {
                                                  uint32_t pageable[16];
                                                  return driver().cuMemcpyDtoHAsync_v2(
                                                      pageable, data, 64, stream);
                                                }}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace vgpu::conformance
