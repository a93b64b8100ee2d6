// Eight host threads, each with its own stream and buffers, at the same time.
// SPDX-License-Identifier: Apache-2.0
#include <thread>
#include <vector>

#include "app.h"

__global__ void mix(unsigned* data, int n, unsigned key) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * 1664525u + key;
}

bool worker(unsigned key) {
  const int n = 5000, rounds = 40;
  cudaStream_t stream;
  CHECKED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<unsigned> data(n), expected(n);
  for (int i = 0; i < n; ++i) data[i] = expected[i] = i ^ key;
  unsigned* device;
  for (int round = 0; round < rounds; ++round) {
    CHECKED(cudaMalloc(&device, n * sizeof(unsigned)));
    CHECKED(
        cudaMemcpyAsync(device, data.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
    mix<<<(n + 127) / 128, 128, 0, stream>>>(device, n, key + round);
    CHECKED(cudaGetLastError());
    CHECKED(
        cudaMemcpyAsync(data.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
    CHECKED(cudaStreamSynchronize(stream));
    CHECKED(cudaFree(device));
    for (unsigned& value : expected) value = value * 1664525u + key + round;
  }
  CHECKED(cudaStreamDestroy(stream));
  return data == expected;
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  constexpr int kThreads = 8;
  bool good[kThreads] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&good, i] { good[i] = worker(i * 7919u + 1); });
  }
  for (std::thread& thread : threads) thread.join();
  int count = 0;
  for (const bool each : good) count += each;
  std::printf("threads %d, right %d\n", kThreads, count);
  timer.report("many_threads");
  return app::finish("many_threads", count == kThreads);
}
