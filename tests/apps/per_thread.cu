// Built with --default-stream per-thread: each host thread has a default stream of its own, which
// orders with the legacy stream and with nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <vector>

#include "app.h"

// Runs until the host opens the gate.
__global__ void wait_for(volatile int* gate) {
  while (*gate == 0) {
  }
}
__global__ void add(int* data, int n, int value) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += value;
}

namespace {

constexpr int kItems = 1000;

struct Gate {
  int* host = nullptr;
  int* device = nullptr;
  Gate() {
    CHECKED(cudaHostAlloc(&host, 64, cudaHostAllocMapped));
    *host = 0;
    CHECKED(cudaHostGetDevicePointer(&device, host, 0));
  }
  ~Gate() { CHECKED(cudaFreeHost(host)); }
  void open() { *static_cast<volatile int*>(host) = 1; }
};

// <<<>>> and cudaMemcpy of this build mean the thread's own stream: another thread's does not wait.
bool threads_do_not_wait() {
  Gate gate;
  int *data, result[kItems];
  CHECKED(cudaMalloc(&data, sizeof result));
  CHECKED(cudaMemset(data, 0, sizeof result));
  wait_for<<<1, 1>>>(gate.device);
  const bool busy = cudaStreamQuery(nullptr) == cudaErrorNotReady;
  bool other = false;
  std::thread([&] {
    add<<<4, 256>>>(data, kItems, 5);
    CHECKED(cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost));
    CHECKED(cudaStreamSynchronize(nullptr));
    other = result[0] == 5 && result[kItems - 1] == 5;
  }).join();
  const bool still_busy = cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady;
  gate.open();
  CHECKED(cudaStreamSynchronize(cudaStreamPerThread));
  CHECKED(cudaFree(data));
  return busy && other && still_busy;
}

// The legacy stream waits for the threads' streams and they for it; a stream that does not block
// takes no part.
bool the_legacy_stream_orders() {
  Gate first, second;
  cudaStream_t apart;
  int *data, result[kItems];
  CHECKED(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
  CHECKED(cudaMalloc(&data, sizeof result));
  CHECKED(cudaMemset(data, 0, sizeof result));
  wait_for<<<1, 1>>>(first.device);
  add<<<4, 256, 0, cudaStreamLegacy>>>(data, kItems, 1);
  add<<<4, 256, 0, apart>>>(data, kItems, 10);
  CHECKED(cudaStreamSynchronize(apart));
  CHECKED(cudaMemcpyAsync(result, data, sizeof result, cudaMemcpyDeviceToHost, apart));
  CHECKED(cudaStreamSynchronize(apart));
  const bool held = result[7] == 10 && cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady;
  first.open();
  CHECKED(cudaStreamSynchronize(cudaStreamLegacy));
  wait_for<<<1, 1, 0, cudaStreamLegacy>>>(second.device);
  bool waits = false;
  std::thread other([&] {
    add<<<4, 256>>>(data, kItems, 100);
    waits = cudaStreamQuery(nullptr) == cudaErrorNotReady;
    second.open();
    CHECKED(cudaStreamSynchronize(nullptr));
  });
  other.join();
  CHECKED(cudaMemcpy(result, data, sizeof result, cudaMemcpyDeviceToHost));
  CHECKED(cudaStreamDestroy(apart));
  CHECKED(cudaFree(data));
  return held && waits && result[kItems - 1] == 111;
}

// Threads come and go; what one leaves in its stream is waited for by the device.
bool many_threads() {
  constexpr int kThreads = 24, kRounds = 20;
  int* data;
  CHECKED(cudaMalloc(&data, kThreads * kItems * sizeof(int)));
  CHECKED(cudaMemset(data, 0, kThreads * kItems * sizeof(int)));
  CHECKED(cudaDeviceSynchronize());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([=] {
      for (int i = 0; i < kRounds; ++i) add<<<4, 256>>>(data + t * kItems, kItems, t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECKED(cudaDeviceSynchronize());
  std::vector<int> result(kThreads * kItems);
  CHECKED(cudaMemcpy(result.data(), data, result.size() * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < kThreads * kItems; ++i) wrong += result[i] != i / kItems * kRounds;
  CHECKED(cudaFree(data));
  return wrong == 0;
}

// Each thread finds the same stream again, and events order those of two.
bool events_between_threads() {
  int *data, result[kItems];
  cudaEvent_t event;
  CHECKED(cudaEventCreate(&event));
  CHECKED(cudaMalloc(&data, sizeof result));
  CHECKED(cudaMemset(data, 0, sizeof result));
  for (int i = 0; i < 50; ++i) add<<<4, 256>>>(data, kItems, 2);
  CHECKED(cudaEventRecord(event));
  std::thread([&] {
    CHECKED(cudaStreamWaitEvent(nullptr, event, 0));
    add<<<4, 256>>>(data, kItems, 1);
    CHECKED(cudaMemcpyAsync(result, data, sizeof result, cudaMemcpyDeviceToHost, nullptr));
    CHECKED(cudaStreamSynchronize(nullptr));
  }).join();
  CHECKED(cudaEventDestroy(event));
  CHECKED(cudaFree(data));
  return result[0] == 101 && result[kItems - 1] == 101;
}

}  // namespace

int main() {
  bool good = true;
  const auto report = [&good](const char* what, bool right) {
    std::printf("%s: %s\n", what, right ? "right" : "wrong");
    good = good && right;
  };
  report("threads do not wait for each other", threads_do_not_wait());
  report("the legacy stream orders", the_legacy_stream_orders());
  report("many threads", many_threads());
  report("events between threads", events_between_threads());
  return app::finish("per_thread", good);
}
