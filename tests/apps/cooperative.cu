// A grid whose blocks wait for each other: cooperative launches and grid.sync.
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>

#include "app.h"

namespace cg = cooperative_groups;

// Every round each thread takes its neighbour's value of the round before.
__global__ void rotate(int* a, int* b, int rounds) {
  cg::grid_group grid = cg::this_grid();
  const unsigned n = static_cast<unsigned>(grid.size());
  const auto t = static_cast<unsigned>(grid.thread_rank());
  for (int i = 0; i < rounds; ++i) {
    int* from = i % 2 == 0 ? a : b;
    int* to = i % 2 == 0 ? b : a;
    to[t] = from[(t + 1 + static_cast<unsigned>(i)) % n] + 1;
    grid.sync();
  }
  if (t == 0 && !grid.is_valid()) a[0] = -1;
}

__global__ void pieces(int* out) {  // tiles, coalesced groups, block and grid ranks
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  int value = static_cast<int>(block.thread_rank());
  for (unsigned step = tile.size() / 2; step > 0; step /= 2) value += tile.shfl_down(value, step);
  value = tile.shfl(value, 0);
  if (block.thread_rank() % 3 == 0) {
    cg::coalesced_group some = cg::coalesced_threads();
    value += 1000 * static_cast<int>(some.size());
    value += 100000 * some.any(block.thread_rank() == 9);
  }
  block.sync();
  out[cg::this_grid().thread_rank()] = value;
}

int main() {
  int device = 0, multiprocessors = 0, serves = 0, per_multiprocessor = 0;
  CHECKED(cudaGetDevice(&device));
  CHECKED(cudaDeviceGetAttribute(&serves, cudaDevAttrCooperativeLaunch, device));
  CHECKED(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  CHECKED(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, rotate, 64, 0));
  const int blocks = multiprocessors * per_multiprocessor;
  const int threads = blocks * 64;
  int *a, *b;
  CHECKED(cudaMalloc(&a, threads * sizeof(int)));
  CHECKED(cudaMalloc(&b, threads * sizeof(int)));
  int* host = static_cast<int*>(std::malloc(2 * threads * sizeof(int)));
  for (int i = 0; i < threads; ++i) host[i] = i * 7;
  CHECKED(cudaMemcpy(a, host, threads * sizeof(int), cudaMemcpyHostToDevice));
  int rounds = 6;
  void* arguments[] = {&a, &b, &rounds};
  CHECKED(cudaLaunchCooperativeKernel(rotate, dim3(blocks), dim3(64), arguments));
  CHECKED(cudaMemcpy(host, a, threads * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < threads; ++i) wrong += host[i] != (i + 21) % threads * 7 + 6;
  const cudaError_t large =
      cudaLaunchCooperativeKernel(rotate, dim3(blocks + 1), dim3(64), arguments);
  std::printf("attribute %d, rotate: %d wrong, too large: %s\n", serves, wrong,
              cudaGetErrorName(large));
  pieces<<<2, 64>>>(b);
  CHECKED(cudaMemcpy(host, b, 128 * sizeof(int), cudaMemcpyDeviceToHost));
  int wrong_pieces = 0;
  for (int i = 0; i < 128; ++i) {
    const int t = i % 64, first = t / 8 * 8;
    int want = first * 8 + 28;
    if (t % 3 == 0) want += 11000 + 100000 * (t < 32);
    wrong_pieces += host[i] != want;
  }
  std::printf("pieces: %d wrong\n", wrong_pieces);
  return app::finish("cooperative", wrong == 0 && serves == 1 && wrong_pieces == 0 &&
                                        large == cudaErrorCooperativeLaunchTooLarge);
}
