// The other file of the rdc program.
// SPDX-License-Identifier: Apache-2.0
#include "rdc_other.h"

static __device__ int hidden = 7000;
static __device__ __noinline__ int helper(int x) { return x + hidden; }

__device__ int other_function(int x, int t) { return helper(x * factors[t & 3] + 5); }

__device__ int shared_sum(int t) {
  __shared__ int box[64];
  __shared__ int sum;
  box[t] = t * 3;
  __syncthreads();
  if (t == 0) {
    sum = 0;
    for (int i = 0; i < 64; ++i) sum += box[i];
  }
  __syncthreads();
  return sum + t;
}

static __device__ int square(int x) { return x * x; }
static __device__ int minus(int x) { return -x; }
__device__ Function chosen(int which) { return which != 0 ? minus : square; }

static __global__ void own(int* out) {
  out[threadIdx.x] = helper(static_cast<int>(threadIdx.x)) + counter;
  if (threadIdx.x == 0) printf("other: %d\n", counter);
  if (threadIdx.x == 0) printf("factors: %d %d\n", factors[0], factors[3]);
  if (threadIdx.x == 0) printf("the end\n");
}
void launch_other(int* out) { own<<<1, 64>>>(out); }
