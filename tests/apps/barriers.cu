// Barriers of a block in all their forms: named, with counts, arriving without waiting, reducing,
// guarded, and reached by parts of a warp.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

__device__ void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Warps 0 and 1 fill a buffer which warps 2 and 3 empty; two barriers for full and empty.
__global__ void producer_consumer(const int* in, int* out, int rounds) {
  __shared__ int buffer[64];
  const int t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    for (int i = 0; i < rounds; ++i) {
      if (i > 0) sync_named(2, 128);
      buffer[t] = in[i * 64 + t] * 2;
      __threadfence_block();
      arrive_named(1, 128);
    }
  } else {
    for (int i = 0; i < rounds; ++i) {
      sync_named(1, 128);
      out[i * 64 + t] = buffer[(t + 17) % 64] + 1;
      if (i + 1 < rounds) arrive_named(2, 128);
    }
  }
}

// Lanes of one warp wait in different places of the program for one barrier.
__global__ void two_places(int* out) {
  __shared__ int box[128];
  const int t = threadIdx.x;
  box[t] = t * 5;
  int value;
  if (t % 3 == 0) {
    box[t] += 1;
    __syncthreads();
    value = box[(t + 1) % 128];
  } else {
    box[t] += 2;
    __syncthreads();
    value = -box[(t + 50) % 128];
  }
  out[t] = value;
}

__global__ void reductions(int* out) {
  const int t = threadIdx.x;
  int a, b, c;
  if (t % 2 == 0) {
    a = __syncthreads_count(t % 5 == 0);
    b = __syncthreads_and(t < 96);
    c = __syncthreads_or(t == 77);
  } else {
    a = __syncthreads_count(t % 7 == 0) * 1000;
    b = __syncthreads_and(true) + 2;
    c = __syncthreads_or(t == 77) + 4;
  }
  out[t] = a + 100000 * b + 1000000 * c;
}

__global__ void uniform_reduction(int* out, int which) {
  const int t = threadIdx.x;
  int r = __syncthreads_count((t & which) != 0);
  r = r * 10 + __syncthreads_and(t >= 0) * 2 + __syncthreads_or(t < 0);
  out[t] = r;
}

// A guard keeps whole warps, or parts of them, from the barrier.
__global__ void guarded(int* out) {
  __shared__ volatile int ready;
  const int t = threadIdx.x;
  if (t == 0) ready = 0;
  __syncthreads();
  if (t == 70) ready = 41;
  const int takes_part = t >= 64;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p bar.sync 5, 64; }" ::"r"(takes_part)
               : "memory");
  out[t] = takes_part ? ready + 1 : -1;
  const int some_lanes = t % 2;
  asm volatile("{ .reg .pred p; setp.ne.s32 p, %0, 0; @p barrier.sync 6, 64; }" ::"r"(some_lanes)
               : "memory");
  out[t] += some_lanes != 0 ? 1000 : 0;
}

// Threads that have left are not waited for.
__global__ void leavers(int* out, int n) {
  __shared__ int sum;
  const int t = threadIdx.x;
  if (t == 0) sum = 0;
  __syncthreads();
  if (t % 4 == 3 || t >= n) return;
  for (int i = 0; i <= t % 4; ++i) {
    atomicAdd(&sum, 1);
    if (i == 2) return;
  }
  __syncthreads();
  out[t] = sum;
}

// Sixteen barriers at once, each for one pair of warps.
__global__ void sixteen(int* out) {
  __shared__ int box[1024];
  const int pair = threadIdx.x / 64;
  for (int i = 0; i < 1 + pair; ++i) {
    box[threadIdx.x] = i * 1000 + static_cast<int>(threadIdx.x);
    sync_named(pair, 64);
    out[threadIdx.x] = box[threadIdx.x ^ 33];
    sync_named(pair, 64);
  }
}

namespace {

bool report(const char* name, unsigned wrong) {
  std::printf("%s: %u wrong\n", name, wrong);
  return wrong == 0;
}

bool check_pipeline(int* in, int* out) {
  constexpr int kRounds = 20;
  int host[kRounds * 64];
  for (int i = 0; i < kRounds * 64; ++i) host[i] = i * i % 1001;
  CHECKED(cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice));
  producer_consumer<<<1, 128>>>(in, out, kRounds);
  int back[kRounds * 64];
  CHECKED(cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (int i = 0; i < kRounds * 64; ++i)
    wrong += back[i] != host[i / 64 * 64 + (i % 64 + 17) % 64] * 2 + 1;
  return report("producer and consumer", wrong);
}

}  // namespace

int main() {
  int *in, *out, host[1024];
  CHECKED(cudaMalloc(&in, 8192));
  CHECKED(cudaMalloc(&out, 8192));
  bool good = check_pipeline(in, out);
  const auto fetch = [&] {
    CHECKED(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    return 0U;
  };
  two_places<<<1, 128>>>(out);
  unsigned wrong = fetch();
  for (int t = 0; t < 128; ++t) {
    const auto box = [](int j) { return j * 5 + (j % 3 == 0 ? 1 : 2); };
    wrong += host[t] != (t % 3 == 0 ? box((t + 1) % 128) : -box((t + 50) % 128));
  }
  good &= report("two places", wrong);
  reductions<<<1, 128>>>(out);
  wrong = fetch();
  int count = 0;
  for (int t = 0; t < 128; ++t) count += t % 2 == 0 ? t % 5 == 0 : t % 7 == 0;
  for (int t = 0; t < 128; ++t) {
    const int want = t % 2 == 0 ? count + 1000000 : count * 1000 + 200000 + 5000000;
    wrong += host[t] != want;
  }
  good &= report("reductions", wrong);
  uniform_reduction<<<1, 100>>>(out, 4);
  wrong = fetch();
  for (int t = 0; t < 100; ++t) wrong += host[t] != 482;
  good &= report("uniform reduction", wrong);
  guarded<<<1, 128>>>(out);
  wrong = fetch();
  for (int t = 0; t < 128; ++t) wrong += host[t] != (t < 64 ? -1 : 42) + (t % 2 != 0 ? 1000 : 0);
  good &= report("guarded", wrong);
  CHECKED(cudaMemset(out, 0, 8192));
  leavers<<<1, 100>>>(out, 90);
  wrong = fetch();
  int sum = 0;
  for (int t = 0; t < 90; ++t) sum += t % 4 == 3 ? 0 : t % 4 + 1;
  for (int t = 0; t < 100; ++t) wrong += host[t] != (t < 90 && t % 4 < 2 ? sum : 0);
  good &= report("leavers", wrong);
  sixteen<<<1, 1024>>>(out);
  wrong = fetch();
  for (int t = 0; t < 1024; ++t) wrong += host[t] != t / 64 * 1000 + (t ^ 33);
  good &= report("sixteen", wrong);
  return app::finish("barriers", good);
}
