// Kernels that read and write all over the address space, each in a process of its own, while the
// parent computes: its results stay the same to the last bit.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "app.h"

namespace {

constexpr int kAttackers = 12, kPlaces = 64, kWords = 1 << 16;
constexpr unsigned kAttackSeconds = 5;

// Addresses near powers of two, near others' usual places, and anywhere.
__device__ unsigned long long place(unsigned long long seed, int i) {
  unsigned long long x = seed * 0x9e3779b97f4a7c15ULL + static_cast<unsigned long long>(i);
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 32;
  switch (i % 4) {
    case 0:
      return (1ULL << (x % 64)) + (x >> 40) % 4096 * 4;
    case 1:
      return 0x7f0000000000ULL + (x >> 20) % (1ULL << 40) / 4096 * 4096;
    case 2:
      return 0x550000000000ULL + (x >> 20) % (1ULL << 40) / 4096 * 4096;
    default:
      return x & ~3ULL;
  }
}

__global__ void attack(unsigned long long seed, int first, unsigned* sink) {
  for (int i = first; i < first + 4; ++i) {
    auto* const where = reinterpret_cast<volatile unsigned*>(place(seed, i));
    *sink += *where;
    *where = 0xdeadbeef;
  }
}

__global__ void mix(unsigned* words, unsigned round) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned x = words[i] + round;
  for (int k = 0; k < 32; ++k) x = x * 1664525U + 1013904223U + (x >> 13);
  words[i] = x;
}

[[noreturn]] void attack_from_here(int number) {
  alarm(kAttackSeconds);  // whoever breaks its own worker may wait for ever
  unsigned* sink = nullptr;
  if (cudaMalloc(&sink, 4) == cudaSuccess) {
    for (int i = 0; i < kPlaces; i += 4) {
      attack<<<1, 1>>>(static_cast<unsigned long long>(number + 1), i, sink);
      if (cudaDeviceSynchronize() != cudaSuccess) break;
    }
  }
  _exit(0);
}

unsigned checksum(unsigned* device, unsigned* host) {
  CHECKED(cudaMemcpy(host, device, kWords * 4, cudaMemcpyDeviceToHost));
  unsigned sum = 0;
  for (int i = 0; i < kWords; ++i) sum = sum * 31 + host[i];
  return sum;
}

// What `rounds` rounds give.
unsigned computed(unsigned* device, unsigned* host, int rounds) {
  CHECKED(cudaMemset(device, 7, kWords * 4));
  for (int r = 0; r < rounds; ++r) mix<<<kWords / 256, 256>>>(device, static_cast<unsigned>(r));
  return checksum(device, host);
}

}  // namespace

int main() {
  setenv("VGPU_MEM", "128M", 1);  // where there are quotas: all shall have room
  pid_t attackers[kAttackers];
  for (int i = 0; i < kAttackers; ++i) {
    attackers[i] = fork();
    if (attackers[i] == 0) attack_from_here(i);
  }
  unsigned* device = nullptr;
  static unsigned host[kWords];
  CHECKED(cudaMalloc(&device, kWords * 4));
  const unsigned expected = computed(device, host, 20);
  int wrong = 0, running = kAttackers;
  while (running > 0) {
    wrong += computed(device, host, 20) != expected;
    while (running > 0 && waitpid(-1, nullptr, WNOHANG) > 0) --running;
  }
  wrong += computed(device, host, 20) != expected;
  std::printf("%d results changed\n", wrong);
  return app::finish("hostile", wrong == 0);
}
