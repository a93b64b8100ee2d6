// The end of a process in awkward order: static destructors that call CUDA, a thread still in a
// call, work still queued. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <thread>

#include "app.h"

__global__ void add_one(int* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

constexpr int kN = 10000;

// Destroyed after main, when the runtime's own statics may be gone: any error is fine, a crash or a
// hang is not.
struct Late {
  int* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ~Late() {
    if (memory != nullptr) add_one<<<1, 1, 0, stream>>>(memory, 1);
    (void)cudaEventRecord(event, stream);
    (void)cudaEventDestroy(event);
    (void)cudaStreamDestroy(stream);
    (void)cudaFree(memory);
    (void)cudaDeviceSynchronize();
  }
};
Late late;

void at_exit() {
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  (void)cudaDeviceSynchronize();
}

std::atomic<bool> waiting{false};

int main() {
  std::atexit(at_exit);
  CHECKED(cudaMalloc(&late.memory, kN * sizeof(int)));
  CHECKED(cudaMemset(late.memory, 0, kN * sizeof(int)));
  CHECKED(cudaStreamCreate(&late.stream));
  CHECKED(cudaEventCreate(&late.event));
  add_one<<<80, 128, 0, late.stream>>>(late.memory, kN);
  CHECKED(cudaStreamSynchronize(late.stream));
  for (int i = 0; i < 200; ++i) add_one<<<80, 128, 0, late.stream>>>(late.memory, kN);
  std::thread([] {
    waiting = true;
    (void)cudaStreamSynchronize(late.stream);
  }).detach();
  while (!waiting) std::this_thread::yield();
  return app::finish("exit_order", true);  // with work queued and a thread in a call
}
