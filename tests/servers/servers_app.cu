// Two devices, whichever servers have them: kernels on each, copies between them, and a stream that
// waits for the other device's event. Prints the same on one server and on two.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#define CHECKED(call)                                           \
  do {                                                          \
    const cudaError_t error_ = (call);                          \
    if (error_ != cudaSuccess) {                                \
      std::printf("%s: %s\n", #call, cudaGetErrorName(error_)); \
      return 1;                                                 \
    }                                                           \
  } while (false)

__global__ void fill(int* data, int n, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] = value + i;
}
__global__ void add(int* data, int n, int value) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] += value;
}
// Takes a while, so that who does not wait is seen.
__global__ void slow_fill(int* data, int n, int value, int turns) {
  volatile int count = 0;
  for (int turn = 0; turn < turns; ++turn) count = count + 1;
  for (int i = 0; i < n; ++i) data[i] = value + i + (count - turns);
}

static long long sum(const std::vector<int>& values) {
  long long total = 0;
  for (const int value : values) total += value;
  return total;
}

int main() {
  constexpr int kN = 3 << 20, kBlocks = (kN + 255) / 256, kFew = 1000;
  constexpr size_t kBytes = kN * sizeof(int);
  int count = 0;
  CHECKED(cudaGetDeviceCount(&count));
  std::printf("%d devices\n", count);
  if (count != 2) return 1;
  int* data[2];
  cudaStream_t stream[2];
  cudaEvent_t event[2];
  for (int device = 0; device < 2; ++device) {
    CHECKED(cudaSetDevice(device));
    CHECKED(cudaMalloc(&data[device], kBytes));
    CHECKED(cudaStreamCreateWithFlags(&stream[device], cudaStreamNonBlocking));
    CHECKED(cudaEventCreateWithFlags(&event[device], cudaEventDisableTiming));
    fill<<<kBlocks, 256>>>(data[device], kN, 10 * device);
    CHECKED(cudaDeviceSynchronize());
  }
  std::vector<int> host(kN);
  for (int device = 0; device < 2; ++device) {
    CHECKED(cudaMemcpy(host.data(), data[device], kBytes, cudaMemcpyDefault));
    std::printf("device %d: %lld\n", device, sum(host));
  }
  CHECKED(cudaSetDevice(0));
  CHECKED(cudaMemcpyPeer(data[0], 0, data[1], 1, kBytes));
  CHECKED(cudaMemcpy(host.data(), data[0], kBytes, cudaMemcpyDeviceToHost));
  std::printf("peer: %lld\n", sum(host));

  // In a stream's order, both ways, behind and before kernels.
  for (int round = 0; round < 10; ++round) {
    const int here = round & 1, there = 1 - here;
    CHECKED(cudaSetDevice(here));
    add<<<kBlocks, 256, 0, stream[here]>>>(data[here], kN, round);
    CHECKED(cudaMemcpyPeerAsync(data[there], there, data[here], here, kBytes, stream[here]));
    add<<<kBlocks, 256, 0, stream[here]>>>(data[here], kN, 1);
    CHECKED(cudaEventRecord(event[here], stream[here]));
    CHECKED(cudaSetDevice(there));
    CHECKED(cudaStreamWaitEvent(stream[there], event[here], 0));
  }
  CHECKED(cudaMemcpyAsync(host.data(), data[0], kBytes, cudaMemcpyDeviceToHost, stream[0]));
  CHECKED(cudaStreamSynchronize(stream[0]));
  std::printf("rounds: %lld\n", sum(host));

  // A slow kernel on device 1; device 0 reads what it has written only behind its event.
  for (int turn = 0; turn < 3; ++turn) {
    CHECKED(cudaSetDevice(1));
    slow_fill<<<1, 1, 0, stream[1]>>>(data[1], kFew, 1000 * turn, 2000000);
    CHECKED(cudaMemcpyPeerAsync(data[0], 0, data[1], 1, kFew * sizeof(int), stream[1]));
    CHECKED(cudaEventRecord(event[1], stream[1]));
    CHECKED(cudaSetDevice(0));
    CHECKED(cudaStreamWaitEvent(stream[0], event[1], 0));
    add<<<4, 256, 0, stream[0]>>>(data[0], kFew, 7);
    CHECKED(cudaStreamSynchronize(stream[0]));
    host.resize(kFew);
    CHECKED(cudaMemcpy(host.data(), data[0], kFew * sizeof(int), cudaMemcpyDeviceToHost));
    std::printf("turn %d: %lld\n", turn, sum(host));
  }
  for (int device = 0; device < 2; ++device) {
    CHECKED(cudaSetDevice(device));
    CHECKED(cudaFree(data[device]));
    CHECKED(cudaStreamDestroy(stream[device]));
    CHECKED(cudaEventDestroy(event[device]));
  }
  std::printf("done\n");
  return 0;
}
