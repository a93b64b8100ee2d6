// A program of two device files (-rdc=true): functions, variables and constants across them, and
// names that both files keep for themselves.
// SPDX-License-Identifier: Apache-2.0
#include "rdc_other.h"

__device__ int counter = 5;
static __device__ int hidden = 100;
static __device__ __noinline__ int helper(int x) { return x + hidden; }
__constant__ int factors[4] = {1, 2, 3, 4};

__global__ void across(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  __shared__ int box[64];
  box[t] = helper(t);
  __syncthreads();
  out[t] = other_function(box[63 - t], t) + shared_sum(t) + chosen(t & 1)(t);
  if (t == 0) atomicAdd(&counter, 1);
  // Strings of both files, which the compiler numbers alike.
  if (t == 0) printf("one of %d\n", counter - hidden);
  if (t == 63) printf("two: %d\n", helper(1));
  if (t == 62) printf("three\n");
}

int main() {
  int *out, host[64], wrong = 0, counted = 0;
  CHECKED(cudaMalloc(&out, sizeof host));
  across<<<1, 64>>>(out);
  CHECKED(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  CHECKED(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  for (int t = 0; t < 64; ++t) {
    const int other = (63 - t + 100) * (t % 4 + 1) + 5 + 7000;
    const int sum = 63 * 64 / 2 * 3 + t;
    wrong += host[t] != other + sum + (t % 2 != 0 ? -t : t * t);
  }
  launch_other(out);
  CHECKED(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  for (int t = 0; t < 64; ++t) wrong += host[t] != t + 7000 + 6;
  std::printf("%d wrong, counted %d\n", wrong, counted);
  return app::finish("rdc", wrong == 0 && counted == 6);
}
