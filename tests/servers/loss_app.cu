// Says when it is ready, waits for a line, and then uses both devices: one server is gone by then.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

__global__ void store(int* to, int value) { *to = value; }

static int use(int device, int* word) {
  int value = 0;
  cudaError_t error = cudaSetDevice(device);
  store<<<1, 1>>>(word, 40 + device);
  if (error == cudaSuccess) error = cudaMemcpy(&value, word, sizeof(value), cudaMemcpyDefault);
  std::printf("device %d: %s %d\n", device, cudaGetErrorName(error), value);
  return error == cudaSuccess;
}

int main() {
  int* word[2] = {};
  cudaStream_t stream;
  for (int device = 0; device < 2; ++device) {
    if (cudaSetDevice(device) != cudaSuccess) return 2;
    if (cudaMalloc(&word[device], sizeof(int)) != cudaSuccess) return 2;
    if (!use(device, word[device])) return 2;
  }
  cudaSetDevice(0);
  if (cudaStreamCreate(&stream) != cudaSuccess) return 2;
  std::printf("ready\n");
  std::fflush(stdout);
  char line[16];
  if (std::fgets(line, sizeof(line), stdin) == nullptr) return 2;
  const int first = use(0, word[0]), second = use(1, word[1]);
  cudaSetDevice(0);
  // What cannot arrive is told, and nothing hangs.
  cudaError_t copy = cudaMemcpyPeerAsync(word[0], 0, word[1], 1, sizeof(int), stream);
  if (copy == cudaSuccess) copy = cudaStreamSynchronize(stream);
  std::printf("copy: %s\n", copy == cudaSuccess ? "arrived" : "failed");
  return first == 1 && second == 0 && copy != cudaSuccess ? 0 : 1;
}
