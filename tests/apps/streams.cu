// Two streams: work ordered by an event across them, elapsed time, query.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void scale(int* data, int n, int factor, int offset) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    data[i] = data[i] * factor + offset;
  }
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const int n = 60000, rounds = 10;
  const size_t bytes = n * sizeof(int);
  int* host;
  CHECKED(cudaMallocHost(&host, bytes));
  for (int i = 0; i < n; ++i) host[i] = i % 7;
  int* device;
  CHECKED(cudaMalloc(&device, bytes));
  cudaStream_t first, second;
  CHECKED(cudaStreamCreate(&first));
  CHECKED(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaEvent_t begin, end, first_done, second_done;
  for (cudaEvent_t* event : {&begin, &end}) CHECKED(cudaEventCreate(event));
  for (cudaEvent_t* event : {&first_done, &second_done}) {
    CHECKED(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
  }
  CHECKED(cudaEventRecord(begin, first));
  CHECKED(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, first));
  for (int round = 0; round < rounds; ++round) {
    scale<<<8, 128, 0, first>>>(device, n, 3, round);
    CHECKED(cudaEventRecord(first_done, first));
    CHECKED(cudaStreamWaitEvent(second, first_done, 0));
    scale<<<8, 128, 0, second>>>(device, n, -1, 1);
    CHECKED(cudaEventRecord(second_done, second));
    CHECKED(cudaStreamWaitEvent(first, second_done, 0));
  }
  CHECKED(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, first));
  CHECKED(cudaEventRecord(end, first));
  CHECKED(cudaEventSynchronize(end));
  bool good = cudaEventQuery(end) == cudaSuccess && cudaStreamQuery(first) == cudaSuccess;
  float elapsed_ms = -1;
  CHECKED(cudaEventElapsedTime(&elapsed_ms, begin, end));
  good = good && elapsed_ms >= 0 &&
         cudaEventElapsedTime(&elapsed_ms, first_done, end) == cudaErrorInvalidResourceHandle;
  int wrong = 0;
  for (int i = 0; i < n; ++i) {
    int expected = i % 7;
    for (int round = 0; round < rounds; ++round) expected = -(expected * 3 + round) + 1;
    wrong += host[i] != expected;
  }
  std::printf("rounds %d, wrong %d\n", rounds, wrong);
  for (cudaEvent_t event : {begin, end, first_done, second_done}) CHECKED(cudaEventDestroy(event));
  CHECKED(cudaStreamDestroy(first));
  CHECKED(cudaStreamDestroy(second));
  CHECKED(cudaFreeHost(host));
  CHECKED(cudaFree(device));
  timer.report("streams");
  return app::finish("streams", good && wrong == 0);
}
