// Several devices: one part of the work on each, kernels that read the other's memory, copies
// between them, events across. With one device it does what it can.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void fill(int* data, int n, int base) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = base + i;
}
__global__ void add(int* data, const int* other, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += other[i];
}

namespace {

constexpr int kItems = 10000, kBytes = kItems * sizeof(int), kBlocks = (kItems + 255) / 256;

struct Part {
  int* data = nullptr;
  int* copy = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t filled = nullptr;
};

}  // namespace

int main() {
  int count = 0;
  CHECKED(cudaGetDeviceCount(&count));
  std::printf("%d devices\n", count);
  std::vector<Part> parts(count);
  for (int d = 0; d < count; ++d) {
    cudaDeviceProp properties;
    int can = -1;
    CHECKED(cudaGetDeviceProperties(&properties, d));
    CHECKED(cudaDeviceCanAccessPeer(&can, d, (d + 1) % count));
    std::printf("device %d: bus %d, uuid %02x, peers %d\n", d, properties.pciBusID,
                static_cast<unsigned char>(properties.uuid.bytes[15]), can);
    CHECKED(cudaSetDevice(d));
    if (can != 0) CHECKED(cudaDeviceEnablePeerAccess((d + 1) % count, 0));
    Part& part = parts[d];
    CHECKED(cudaMalloc(&part.data, kBytes));
    CHECKED(cudaMalloc(&part.copy, kBytes));
    CHECKED(cudaStreamCreate(&part.stream));
    CHECKED(cudaEventCreateWithFlags(&part.filled, cudaEventDisableTiming));
    fill<<<kBlocks, 256, 0, part.stream>>>(part.data, kItems, 1000 * d);
    CHECKED(cudaEventRecord(part.filled, part.stream));
  }
  // Each copies its neighbour's part, then adds the neighbour's own memory to that.
  for (int d = 0; d < count; ++d) {
    const int next = (d + 1) % count;
    CHECKED(cudaSetDevice(d));
    CHECKED(cudaStreamWaitEvent(parts[d].stream, parts[next].filled, 0));
    CHECKED(cudaMemcpyPeerAsync(parts[d].copy, d, parts[next].data, next, kBytes, parts[d].stream));
    add<<<kBlocks, 256, 0, parts[d].stream>>>(parts[d].copy, parts[next].data, kItems);
  }
  bool good = true;
  std::vector<int> host(kItems);
  for (int d = 0; d < count; ++d) {
    CHECKED(cudaSetDevice(d));
    CHECKED(cudaStreamSynchronize(parts[d].stream));
    CHECKED(cudaMemcpy(host.data(), parts[d].copy, kBytes, cudaMemcpyDefault));
    int wrong = 0;
    for (int i = 0; i < kItems; ++i) wrong += host[i] != 2 * (1000 * ((d + 1) % count) + i);
    cudaPointerAttributes attributes;
    CHECKED(cudaPointerGetAttributes(&attributes, parts[d].copy));
    std::printf("device %d: %d wrong, its memory is of device %d\n", d, wrong, attributes.device);
    good = good && wrong == 0 && attributes.device == d;
  }
  for (int d = 0; d < count; ++d) {
    CHECKED(cudaSetDevice(d));
    CHECKED(cudaFree(parts[d].data));
    CHECKED(cudaFree(parts[d].copy));
    CHECKED(cudaDeviceReset());
  }
  return app::finish("devices", good);
}
