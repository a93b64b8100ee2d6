// Bitonic sort: one block in shared memory, and a large array with one launch per step.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "app.h"

constexpr int kSmall = 512;

__device__ void exchange(unsigned& a, unsigned& b, bool ascending) {
  if ((a > b) == ascending) {
    const unsigned t = a;
    a = b;
    b = t;
  }
}

__global__ void sort_block(unsigned* data) {
  extern __shared__ unsigned keys[];
  keys[threadIdx.x] = data[threadIdx.x];
  keys[threadIdx.x + blockDim.x] = data[threadIdx.x + blockDim.x];
  for (unsigned size = 2; size <= kSmall; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const unsigned at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      exchange(keys[at], keys[at + stride], (at & size) == 0);
    }
  }
  __syncthreads();
  data[threadIdx.x] = keys[threadIdx.x];
  data[threadIdx.x + blockDim.x] = keys[threadIdx.x + blockDim.x];
}

__global__ void sort_step(unsigned* data, unsigned size, unsigned stride) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned at = 2 * i - (i & (stride - 1));
  exchange(data[at], data[at + stride], (at & size) == 0);
}

bool run(int n) {
  std::vector<unsigned> data(n), expected;
  app::Random random(n);
  for (unsigned& key : data) key = static_cast<unsigned>(random.next());
  expected = data;
  std::sort(expected.begin(), expected.end());
  unsigned* device;
  CHECKED(cudaMalloc(&device, n * sizeof(unsigned)));
  CHECKED(cudaMemcpy(device, data.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  if (n == kSmall) {
    sort_block<<<1, kSmall / 2, kSmall * sizeof(unsigned)>>>(device);
  } else {
    for (int size = 2; size <= n; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        sort_step<<<n / 512, 256>>>(device, size, stride);
      }
    }
  }
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy(data.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECKED(cudaFree(device));
  std::printf("n %d: first %08x, last %08x, %s\n", n, data.front(), data.back(),
              data == expected ? "sorted" : "not sorted");
  return data == expected;
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const bool good = run(kSmall) & run(8192);
  timer.report("bitonic");
  return app::finish("bitonic", good);
}
