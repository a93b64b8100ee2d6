// Sums integers with warp shuffles, ballots the odd ones.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void reduce(const int* in, int n, unsigned long long* sum, unsigned* odd) {
  __shared__ long long partial[32];
  long long value = 0;
  unsigned odd_here = 0;
  const int stride = gridDim.x * blockDim.x;
  const int rounds = (n + stride - 1) / stride;
  for (int round = 0; round < rounds; ++round) {
    const int i = round * stride + blockIdx.x * blockDim.x + threadIdx.x;
    const int item = i < n ? in[i] : 0;
    value += item;
    odd_here += __popc(__ballot_sync(0xffffffffu, item & 1));
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xffffffffu, value, offset);
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) {
    partial[warp] = value;
    atomicAdd(odd, odd_here);
  }
  __syncthreads();
  if (warp == 0) {
    value = lane < blockDim.x / 32 ? partial[lane] : 0;
    for (int offset = 16; offset > 0; offset /= 2) {
      value += __shfl_xor_sync(0xffffffffu, value, offset);
    }
    if (lane == 0) atomicAdd(sum, static_cast<unsigned long long>(value));
  }
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const int n = 250007;
  std::vector<int> in(n);
  app::Random random(3);
  long long expected = 0;
  unsigned expected_odd = 0;
  for (int& item : in) {
    item = static_cast<int>(random.next() % 2001) - 1000;
    expected += item;
    expected_odd += item & 1;
  }
  int* device_in;
  unsigned long long* device_sum;
  unsigned* device_odd;
  CHECKED(cudaMalloc(&device_in, n * sizeof(int)));
  CHECKED(cudaMalloc(&device_sum, sizeof(*device_sum)));
  CHECKED(cudaMalloc(&device_odd, sizeof(*device_odd)));
  CHECKED(cudaMemcpy(device_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  CHECKED(cudaMemset(device_sum, 0, sizeof(*device_sum)));
  CHECKED(cudaMemset(device_odd, 0, sizeof(*device_odd)));
  reduce<<<24, 256>>>(device_in, n, device_sum, device_odd);
  CHECKED(cudaGetLastError());
  long long sum = 0;
  unsigned odd = 0;
  CHECKED(cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost));
  CHECKED(cudaMemcpy(&odd, device_odd, sizeof(odd), cudaMemcpyDeviceToHost));
  std::printf("sum %lld (expected %lld), odd %u (expected %u)\n", sum, expected, odd, expected_odd);
  timer.report("reduce");
  return app::finish("reduce", sum == expected && odd == expected_odd);
}
