// Prints what a program can know about the device, without what differs between runs.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

int main() {
  int count = 0, runtime = 0, driver = 0;
  CHECKED(cudaGetDeviceCount(&count));
  CHECKED(cudaRuntimeGetVersion(&runtime));
  CHECKED(cudaDriverGetVersion(&driver));
  std::printf("devices %d, runtime %d, driver new enough %d\n", count, runtime,
              driver / 1000 >= runtime / 1000);
  bool good = count >= 1;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp p;
    CHECKED(cudaGetDeviceProperties(&p, device));
    std::printf("name %s\ncompute %d.%d\n", p.name, p.major, p.minor);
    std::printf("multiprocessors %d, warp %d\n", p.multiProcessorCount, p.warpSize);
    std::printf("threads per block %d, per multiprocessor %d\n", p.maxThreadsPerBlock,
                p.maxThreadsPerMultiProcessor);
    std::printf("block %d %d %d, grid %d %d %d\n", p.maxThreadsDim[0], p.maxThreadsDim[1],
                p.maxThreadsDim[2], p.maxGridSize[0], p.maxGridSize[1], p.maxGridSize[2]);
    std::printf("shared per block %zu, registers per block %d, constant %zu\n", p.sharedMemPerBlock,
                p.regsPerBlock, p.totalConstMem);
    std::printf("unified addressing %d, managed %d, pools %d, cooperative %d\n",
                p.unifiedAddressing, p.managedMemory, p.memoryPoolsSupported, p.cooperativeLaunch);
    size_t free_bytes = 0, total_bytes = 0;
    CHECKED(cudaMemGetInfo(&free_bytes, &total_bytes));
    good = good && p.warpSize == 32 && p.totalGlobalMem > 0 && p.maxThreadsPerBlock >= 1024 &&
           free_bytes > 0 && free_bytes <= total_bytes;
    std::printf("memory %s\n", free_bytes <= total_bytes ? "consistent" : "inconsistent");
  }
  return app::finish("devprop", good);
}
