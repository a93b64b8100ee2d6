// Threads that wait for each other without a barrier: locks among lanes, flags between lanes, warps
// and blocks, with many more blocks than multiprocessors.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

// The winner's work comes after the loop.
__global__ void lock_then_work(int* lock, int* counter) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  *static_cast<volatile int*>(counter) = *static_cast<volatile int*>(counter) + 1;
  __threadfence();
  atomicExch(lock, 0);
}

// The winner's work is inside of the loop.
__global__ void work_in_loop(int* lock, int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *static_cast<volatile int*>(counter) = *static_cast<volatile int*>(counter) + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// Two locks held at once, taken in order, with work in several steps and a nap while waiting.
__global__ void two_locks(int* locks, int* counter, int count) {
  const int a = static_cast<int>((threadIdx.x + blockIdx.x) % (count - 1)), b = a + 1;
  while (atomicCAS(&locks[a], 0, 1) != 0) {
  }
  while (atomicCAS(&locks[b], 0, 1) != 0) __nanosleep(20);
  for (int i = a; i <= b; ++i) {
    for (int step = 0; step < 3; ++step) {
      volatile int* c = counter + i;
      *c = *c + (step == 1 ? 1 : 0);
    }
  }
  __threadfence();
  atomicExch(&locks[b], 0);
  atomicExch(&locks[a], 0);
}

__global__ void tickets(unsigned* next, volatile unsigned* serving, unsigned* order) {
  const unsigned mine = atomicAdd(next, 1);
  while (*serving != mine) {
  }
  order[mine] = blockIdx.x * blockDim.x + threadIdx.x;
  __threadfence();
  *serving = mine + 1;
}

// Lane i waits for lane i+1; the last lane of the block starts it.
__global__ void lane_chain(volatile int* flag, int* out) {
  const int t = threadIdx.x;
  if (t + 1 < blockDim.x) {
    while (flag[t + 1] == 0) {
    }
    out[t] = out[t + 1] + t;
  } else {
    out[t] = t;
  }
  __threadfence();
  flag[t] = 1;
}

// Each block adds its part to what its predecessor published.
__global__ void block_chain(volatile unsigned* state, unsigned* total) {
  __shared__ unsigned before;
  if (threadIdx.x == 0) {
    unsigned sum = 0;
    if (blockIdx.x > 0) {
      while ((sum = state[blockIdx.x - 1]) == 0) {
      }
    }
    before = sum;
    __threadfence();
    state[blockIdx.x] = sum + blockIdx.x + 1;
  }
  __syncthreads();
  if (threadIdx.x == blockDim.x - 1) total[blockIdx.x] = before;
}

// While some lanes spin at the loop's head, those that hold the lock change what is live there.
__global__ void registers(int* lock, int* shared_sum, int* out) {
  const int t = threadIdx.x;
  int a = t, b = 3 * t + 1, c = 7;
  for (int round = 0; round < 4;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      const int old = a;
      a = b + round;
      b = old * 2 + c;
      c += t & 3;
      *static_cast<volatile int*>(shared_sum) = *static_cast<volatile int*>(shared_sum) + a;
      __threadfence();
      atomicExch(lock, 0);
      ++round;
    }
  }
  out[t] = a + 3 * b + 5 * c;
}

namespace {

bool report(const char* name, unsigned wrong) {
  std::printf("%s: %u wrong\n", name, wrong);
  return wrong == 0;
}

int* device_zeros(size_t count) {
  int* p;
  CHECKED(cudaMalloc(&p, count * sizeof(int)));
  CHECKED(cudaMemset(p, 0, count * sizeof(int)));
  return p;
}

int read(const int* at) {
  int value;
  CHECKED(cudaMemcpy(&value, at, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

bool check_locks() {
  int* words = device_zeros(64);
  lock_then_work<<<6, 96>>>(words, words + 1);
  bool good = report("lock, then work", read(words + 1) != 6 * 96);
  work_in_loop<<<6, 96>>>(words, words + 2);
  good &= report("work in the loop", read(words + 2) != 6 * 96);
  int* locks = device_zeros(16);
  two_locks<<<5, 64>>>(locks, words + 16, 9);
  unsigned wrong = 0;
  int expected[9] = {};
  for (int i = 0; i < 5 * 64; ++i) {
    const int a = (i % 64 + i / 64) % 8;
    ++expected[a], ++expected[a + 1];
  }
  for (int i = 0; i < 9; ++i) wrong += read(words + 16 + i) != expected[i];
  return good & report("two locks", wrong);
}

bool check_tickets() {
  constexpr unsigned kThreads = 4 * 64;
  auto* words = reinterpret_cast<unsigned*>(device_zeros(2 + kThreads));
  tickets<<<4, 64>>>(words, words + 1, words + 2);
  unsigned host[2 + kThreads], wrong = 0;
  CHECKED(cudaMemcpy(host, words, sizeof host, cudaMemcpyDeviceToHost));
  bool seen[kThreads] = {};
  for (unsigned i = 0; i < kThreads; ++i) {
    wrong += host[2 + i] >= kThreads || seen[host[2 + i]];
    if (host[2 + i] < kThreads) seen[host[2 + i]] = true;
  }
  return report("tickets", wrong + (host[1] != kThreads));
}

bool check_chains() {
  int* words = device_zeros(512);
  lane_chain<<<1, 160>>>(words, words + 256);
  bool good = report("chain of lanes", read(words + 256) != 159 * 160 / 2);
  constexpr unsigned kBlocks = 700;
  auto* state = reinterpret_cast<unsigned*>(device_zeros(2 * kBlocks));
  block_chain<<<kBlocks, 64>>>(state, state + kBlocks);
  static unsigned host[kBlocks];
  CHECKED(cudaMemcpy(host, state + kBlocks, sizeof host, cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (unsigned i = 0; i < kBlocks; ++i) wrong += host[i] != i * (i + 1) / 2;
  return good & report("chain of blocks", wrong);
}

bool check_registers() {
  int* words = device_zeros(128);
  registers<<<1, 96>>>(words, words + 1, words + 2);
  int host[128], sum = 0;
  CHECKED(cudaMemcpy(host, words, sizeof host, cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (int t = 0; t < 96; ++t) {
    int a = t, b = 3 * t + 1, c = 7;
    for (int round = 0; round < 4; ++round) {
      const int old = a;
      a = b + round, b = old * 2 + c, c += t & 3, sum += a;
    }
    wrong += host[2 + t] != a + 3 * b + 5 * c;
  }
  return report("registers", wrong + (host[1] != sum));
}

}  // namespace

int main() {
  bool good = check_locks();
  good &= check_tickets();
  good &= check_chains();
  good &= check_registers();
  return app::finish("locks", good);
}
