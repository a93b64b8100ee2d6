// Warp-level operations in divergent code: member masks that name lanes which are elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

constexpr unsigned kFull = 0xffffffffU;

__global__ void halves(int* out) {  // each half exchanges among itself, in its own branch
  const int lane = threadIdx.x % 32;
  int value = lane * 3;
  if (lane < 16) {
    value += __shfl_xor_sync(0x0000ffffU, value, 5);
    value += __popc(__ballot_sync(0x0000ffffU, lane & 1));
  } else {
    value -= __shfl_down_sync(0xffff0000U, value, 1, 16);
    value += static_cast<int>(__ballot_sync(0xffff0000U, lane % 3 == 0) >> 16);
  }
  out[threadIdx.x] = value;
}

__global__ void both_branches(int* out) {  // one exchange, reached in two places
  const int lane = threadIdx.x % 32;
  int value = lane + 100;
  if (lane % 2 != 0) {
    value = value * 2 + __shfl_sync(kFull, value, 0);
  } else {
    value = value * 7 - __shfl_sync(kFull, value, 31);
  }
  out[threadIdx.x] = value;
}

// Writers and readers of shared memory meet at bar.warp.sync in different program points.
__global__ void sync_points(int* out) {
  __shared__ volatile int box[64];
  const int lane = threadIdx.x;
  box[lane] = -1;
  __syncwarp();
  if (lane < 8) {
    box[lane] = lane * 11;
    __syncwarp();
    out[lane] = box[lane + 8];
  } else if (lane < 20) {
    box[lane] = lane * 13;
    __syncwarp();
    out[lane] = box[lane % 8];
  } else {
    __syncwarp();
    out[lane] = box[lane - 12] + box[lane % 8];
  }
}

// Lanes leave a loop one by one; those that are left agree among themselves.
__global__ void shrinking(unsigned* out) {
  const unsigned lane = threadIdx.x;
  unsigned sum = 0;
  for (unsigned i = 0; i <= lane; ++i) {
    const unsigned here = __match_any_sync(__activemask(), i);
    sum += __popc(here);
    sum += __reduce_add_sync(here, 1) * 100;
    sum += __shfl_sync(here, lane, 31) * 10000;
  }
  out[lane] = sum;
}

// Aggregated atomics: the lanes that happen to be together elect one.
__global__ void aggregate(unsigned* counter, unsigned* place) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t % 3 == 0) return;
  const unsigned together = __activemask();
  const unsigned leader = __ffs(static_cast<int>(together)) - 1;
  unsigned base = 0;
  if (threadIdx.x % 32 == leader) base = atomicAdd(counter, __popc(together));
  base = __shfl_sync(together, base, static_cast<int>(leader));
  unsigned below;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  place[t] = base + __popc(together & below);
}

// Lanes that a mask names leave the kernel instead of coming.
__global__ void leavers(int* out) {
  const int lane = threadIdx.x;
  out[lane] = 1;
  if (lane % 4 == 0) return;
  if (lane % 4 == 1) {
    out[lane] = 2;
    __syncwarp(kFull);
    out[lane] = 3;
    return;
  }
  out[lane] = __popc(__ballot_sync(0xccccccccU, true));
  __syncwarp(kFull);
}

__global__ void keyed(const int* key, int* out) {  // groups by value, each with its own mask
  const int lane = threadIdx.x;
  const unsigned peers = __match_any_sync(kFull, key[lane]);
  int all_even = 0;
  int same = __match_all_sync(peers, key[lane], &all_even) == peers;
  const int total = __reduce_add_sync(peers, lane);
  const int any = __any_sync(peers, lane == 5);
  const int all = __all_sync(peers, lane > 2);
  const unsigned odd = __ballot_sync(peers, lane & 1);
  out[lane] = total + 1000 * any + 2000 * all + 4000 * (same & all_even) + 8000 * __popc(odd) +
              100000 * static_cast<int>(__reduce_max_sync(peers, static_cast<unsigned>(lane)));
}

namespace {

bool report(const char* name, unsigned wrong) {
  std::printf("%s: %u wrong\n", name, wrong);
  return wrong == 0;
}

unsigned check_halves(const int* out) {
  unsigned wrong = 0;
  int low[16];
  for (int i = 0; i < 16; ++i) low[i] = i * 3 + (i ^ 5) * 3 + 8;
  for (int i = 0; i < 32; ++i) {
    int high = i * 3 - (i == 31 ? i * 3 : (i + 1) * 3);
    unsigned thirds = 0;
    for (int j = 16; j < 32; ++j) thirds |= (j % 3 == 0 ? 1U : 0U) << (j - 16);
    high += static_cast<int>(thirds);
    wrong += out[i] != (i < 16 ? low[i] : high);
  }
  return wrong;
}

unsigned check_points(const int* out) {
  unsigned wrong = 0;
  for (int i = 0; i < 32; ++i) {
    const auto box = [](int j) { return j < 8 ? j * 11 : j < 20 ? j * 13 : -1; };
    const int want = i < 8 ? box(i + 8) : i < 20 ? box(i % 8) : box(i - 12) + box(i % 8);
    wrong += out[i] != want;
  }
  return wrong;
}

unsigned check_shrinking(const unsigned* out) {
  unsigned wrong = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned sum = 0;
    for (unsigned i = 0; i <= lane; ++i) sum += 32 - i + (32 - i) * 100 + 31 * 10000;
    wrong += out[lane] != sum;
  }
  return wrong;
}

unsigned check_keyed(const int* key, const int* out) {
  unsigned wrong = 0;
  for (int i = 0; i < 32; ++i) {
    int total = 0, any = 0, all = 1, odd = 0, most = 0;
    for (int j = 0; j < 32; ++j) {
      if (key[j] != key[i]) continue;
      total += j, any |= j == 5, all &= j > 2, odd += j & 1, most = j;
    }
    wrong += out[i] != total + 1000 * any + 2000 * all + 4000 + 8000 * odd + 100000 * most;
  }
  return wrong;
}

// Every thread that takes part gets a place of its own.
unsigned run_aggregate() {
  constexpr unsigned kThreads = 96 * 40;
  unsigned *counter, *place;
  CHECKED(cudaMalloc(&counter, sizeof(unsigned)));
  CHECKED(cudaMalloc(&place, kThreads * sizeof(unsigned)));
  CHECKED(cudaMemset(counter, 0, sizeof(unsigned)));
  aggregate<<<40, 96>>>(counter, place);
  static unsigned host[kThreads];
  unsigned total = 0, wrong = 0;
  CHECKED(cudaMemcpy(host, place, sizeof host, cudaMemcpyDeviceToHost));
  CHECKED(cudaMemcpy(&total, counter, sizeof total, cudaMemcpyDeviceToHost));
  static bool taken[kThreads];
  for (unsigned t = 0; t < kThreads; ++t) {
    if (t % 3 == 0) continue;
    wrong += host[t] >= total || taken[host[t]];
    if (host[t] < kThreads) taken[host[t]] = true;
  }
  return wrong + (total != kThreads / 3 * 2);
}

}  // namespace

int main() {
  int* out;
  CHECKED(cudaMalloc(&out, 4096 * sizeof(int)));
  int host[4096];
  bool good = true;
  const auto fetch = [&](size_t count) {
    CHECKED(cudaDeviceSynchronize());
    CHECKED(cudaMemcpy(host, out, count * sizeof(int), cudaMemcpyDeviceToHost));
  };
  halves<<<1, 32>>>(out);
  fetch(32);
  good &= report("halves", check_halves(host));
  both_branches<<<1, 32>>>(out);
  fetch(32);
  unsigned wrong = 0;
  for (int i = 0; i < 32; ++i)
    wrong += host[i] != (i % 2 != 0 ? (i + 100) * 2 + 100 : (i + 100) * 7 - 131);
  good &= report("both branches", wrong);
  sync_points<<<1, 32>>>(out);
  fetch(32);
  good &= report("sync points", check_points(host));
  shrinking<<<1, 32>>>(reinterpret_cast<unsigned*>(out));
  fetch(32);
  good &= report("shrinking", check_shrinking(reinterpret_cast<unsigned*>(host)));
  leavers<<<1, 32>>>(out);
  fetch(32);
  wrong = 0;
  for (int i = 0; i < 32; ++i) wrong += host[i] != (i % 4 == 0 ? 1 : i % 4 == 1 ? 3 : 16);
  good &= report("leavers", wrong);
  int key[32];
  app::Random random(7);
  for (int& k : key) k = static_cast<int>(random.next() % 5);
  CHECKED(cudaMemcpy(out + 64, key, sizeof key, cudaMemcpyHostToDevice));
  keyed<<<1, 32>>>(out + 64, out);
  fetch(32);
  good &= report("keyed", check_keyed(key, host));
  good &= report("aggregate", run_aggregate());
  return app::finish("warp_sync", good);
}
