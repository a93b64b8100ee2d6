// Host functions and stream callbacks of the runtime: a pipeline over several streams, in which the
// host works between kernels.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <vector>

#include "app.h"

__global__ void scale(int* data, int n, int factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}

namespace {

constexpr int kStreams = 4, kRounds = 25, kItems = 2048;

struct Line {
  int* host = nullptr;
  long sum = 0;
  int calls = 0;
  cudaError_t inside = cudaSuccess;
};

// Between two copies: sums what the device made, and makes the next input.
void CUDART_CB step(void* user) {
  auto* line = static_cast<Line*>(user);
  for (int i = 0; i < kItems; ++i) {
    line->sum += line->host[i];
    line->host[i] = i + line->calls;
  }
  ++line->calls;
  void* memory = nullptr;
  line->inside = cudaMalloc(&memory, 16);  // not permitted here
}

std::atomic<int> callbacks{0};
void CUDART_CB finished(cudaStream_t, cudaError_t status, void* user) {
  if (status == cudaSuccess) callbacks += *static_cast<int*>(user);
}

// A function that does not end by itself, and what the stream that waits for it says.
int hold() {
  CHECKED(cudaLaunchHostFunc(
      nullptr, [](void*) { pause(); }, nullptr));
  std::printf("held\n");
  std::fflush(stdout);
  std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (app::wants(argc, argv, "hold")) return hold();
  Line lines[kStreams];
  cudaStream_t streams[kStreams];
  int* data[kStreams];
  int one = 1;
  for (int s = 0; s < kStreams; ++s) {
    CHECKED(cudaStreamCreate(&streams[s]));
    CHECKED(cudaMallocHost(&lines[s].host, kItems * sizeof(int)));
    CHECKED(cudaMalloc(&data[s], kItems * sizeof(int)));
    for (int i = 0; i < kItems; ++i) lines[s].host[i] = i;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int s = 0; s < kStreams; ++s) {
      CHECKED(cudaMemcpyAsync(data[s], lines[s].host, kItems * sizeof(int), cudaMemcpyHostToDevice,
                              streams[s]));
      scale<<<kItems / 256, 256, 0, streams[s]>>>(data[s], kItems, s + 1);
      CHECKED(cudaMemcpyAsync(lines[s].host, data[s], kItems * sizeof(int), cudaMemcpyDeviceToHost,
                              streams[s]));
      CHECKED(cudaLaunchHostFunc(streams[s], step, &lines[s]));
      CHECKED(cudaStreamAddCallback(streams[s], finished, &one, 0));
    }
  }
  CHECKED(cudaDeviceSynchronize());
  bool good = callbacks == kStreams * kRounds;
  for (int s = 0; s < kStreams; ++s) {
    long expected = 0;
    for (int round = 0; round < kRounds; ++round) {
      const int from = round == 0 ? 0 : round - 1;  // what the call before had left
      for (int i = 0; i < kItems; ++i) expected += static_cast<long>(i + from) * (s + 1);
    }
    std::printf("stream %d: %d calls, sum %ld, inside: %s\n", s, lines[s].calls, lines[s].sum,
                cudaGetErrorName(lines[s].inside));
    good = good && lines[s].calls == kRounds && lines[s].sum == expected;
  }
  return app::finish("callbacks", good);
}
