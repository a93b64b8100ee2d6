// What kernels print: between what the program itself prints, at every call that shows it, much at
// once, from several streams and threads.
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <thread>

#include "app.h"

__global__ void say(int n) { printf("kernel %d\n", n); }
__global__ void say_all(int n) {
  printf("%d: block %d of %d, thread %d of %d, and so on\n", n, static_cast<int>(blockIdx.x),
         static_cast<int>(gridDim.x), static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}

namespace {

// Each call shows what the kernel before it has printed.
void every_call() {
  cudaStream_t stream;
  cudaEvent_t event;
  int *memory, word = 0;
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaEventCreate(&event));
  CHECKED(cudaMalloc(&memory, 4096));
  say<<<1, 1>>>(1);
  CHECKED(cudaDeviceSynchronize());
  std::printf("after cudaDeviceSynchronize\n");
  say<<<1, 1, 0, stream>>>(2);
  CHECKED(cudaStreamSynchronize(stream));
  std::printf("after cudaStreamSynchronize\n");
  say<<<1, 1, 0, stream>>>(3);
  CHECKED(cudaEventRecord(event, stream));
  CHECKED(cudaEventSynchronize(event));
  std::printf("after cudaEventSynchronize\n");
  say<<<1, 1>>>(4);
  CHECKED(cudaMemcpy(&word, memory, 4, cudaMemcpyDeviceToHost));
  std::printf("after a copy to the host\n");
  say<<<1, 1>>>(5);
  while (cudaStreamQuery(nullptr) == cudaErrorNotReady) {  // small copies to it need not wait
  }
  CHECKED(cudaMemcpy(memory, &word, 4, cudaMemcpyHostToDevice));
  std::printf("after a copy to the device\n");
  // The stream is known to be idle, and yet nothing has been shown.
  say<<<1, 1, 0, stream>>>(6);
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
  }
  std::printf("after cudaStreamQuery\n");
  CHECKED(cudaStreamSynchronize(stream));
  std::printf("after cudaStreamSynchronize\n");
  say<<<1, 1, 0, stream>>>(7);
  CHECKED(cudaStreamAddCallback(
      stream, [](cudaStream_t, cudaError_t, void*) { std::printf("in a callback\n"); }, nullptr,
      0));
  CHECKED(cudaStreamSynchronize(stream));
}

// More than a pipe holds, and more than the channel's pieces.
void much() {
  CHECKED(cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 16 << 20));
  for (int i = 0; i < 4; ++i) {
    say_all<<<1, 1>>>(i);
    for (int k = 0; k < 3000; ++k) say<<<1, 1>>>(k);
  }
  CHECKED(cudaDeviceSynchronize());
  std::printf("much has been printed\n");
}

void threads() {
  std::thread workers[4];
  for (std::thread& worker : workers) {
    worker = std::thread([] {
      for (int i = 0; i < 50; ++i) {
        say_all<<<2, 1, 0, cudaStreamPerThread>>>(7);
        CHECKED(cudaStreamSynchronize(cudaStreamPerThread));
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("threads have printed\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::printf("the program begins\n");
  every_call();
  much();
  if (app::wants(argc, argv, "threads")) threads();  // in an order that nobody knows
  say<<<1, 1>>>(8);
  CHECKED(cudaDeviceReset());
  std::printf("after cudaDeviceReset\n");
  return app::finish("printing", true);
}
