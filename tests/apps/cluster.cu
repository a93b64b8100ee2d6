// Clusters of blocks through cooperative groups: shared memory of the other blocks, a histogram
// spread over a cluster, barriers in halves; sizes from the kernel's text and from the launch.
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>

#include <vector>

#include "app.h"

namespace cg = cooperative_groups;

constexpr int kThreads = 128;

// Each block keeps a part of the bins in its shared memory; every block of the cluster adds to all.
__global__ void count_spread(const unsigned* in, int n, unsigned* bins, int bins_per_block) {
  extern __shared__ unsigned part[];
  cg::cluster_group cluster = cg::this_cluster();
  const int bins_all = bins_per_block * static_cast<int>(cluster.num_blocks());
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) part[i] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const int bin = static_cast<int>(in[i] % static_cast<unsigned>(bins_all));
    unsigned* other = cluster.map_shared_rank(part, bin / bins_per_block);
    atomicAdd(other + bin % bins_per_block, 1u);
  }
  cluster.sync();
  const int first = static_cast<int>(cluster.block_rank()) * bins_per_block;
  for (int i = threadIdx.x; i < bins_per_block; i += blockDim.x) {
    if (part[i] != 0) atomicAdd(&bins[first + i], part[i]);
  }
}

// A sum over three neighbours: what lies in another block's tile is read there. Clusters of 4.
__global__ void __cluster_dims__(4, 1, 1) smooth(const int* in, int* out) {
  __shared__ int tile[kThreads];
  cg::cluster_group cluster = cg::this_cluster();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const unsigned rank = cluster.block_rank(), blocks = cluster.num_blocks();
  tile[threadIdx.x] = in[i];
  cluster.sync();
  const int* before = cluster.map_shared_rank(tile, (rank + blocks - 1) % blocks);
  const int* after = cluster.map_shared_rank(tile, (rank + 1) % blocks);
  const int left = threadIdx.x == 0 ? before[kThreads - 1] : tile[threadIdx.x - 1];
  const int right = threadIdx.x == kThreads - 1 ? after[0] : tile[threadIdx.x + 1];
  out[i] = left + 2 * tile[threadIdx.x] + right;
  cluster.sync();  // nobody leaves while others read
}

// Rounds of messages around the circle, with other work between arriving and waiting; one block has
// nothing to say and leaves early.
__global__ void relay(int* out, int rounds) {
  __shared__ int inbox[2];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), speakers = cluster.num_blocks() - 1;
  if (threadIdx.x < 2) inbox[threadIdx.x] = 0;
  cluster.sync();
  if (rank == speakers) return;
  int value = static_cast<int>(rank) + 1, spent = 0;
  for (int round = 0; round < rounds; ++round) {
    int* next = cluster.map_shared_rank(inbox, (rank + 1) % speakers);
    if (threadIdx.x == 0) next[round & 1] = value;
    auto token = cluster.barrier_arrive();
    spent += static_cast<int>(threadIdx.x) % (round + 1);
    cluster.barrier_wait(std::move(token));
    value = inbox[round & 1] * 3 + 1;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = value + (spent < 0 ? 1 : 0);
  if (cluster.query_shared_rank(inbox) != rank) out[blockIdx.x] = -1;
}

static cudaLaunchConfig_t configure(int blocks, int cluster, size_t shared,
                                    cudaLaunchAttribute* attribute) {
  attribute->id = cudaLaunchAttributeClusterDimension;
  attribute->val.clusterDim.x = cluster;
  attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared;
  config.attrs = attribute;
  config.numAttrs = 1;
  return config;
}

static bool histograms() {
  const int n = 60007;
  std::vector<unsigned> in(n);
  app::Random random(11);
  for (unsigned& value : in) value = static_cast<unsigned>(random.next() >> 33);
  unsigned *device_in, *device_bins;
  CHECKED(cudaMalloc(&device_in, n * sizeof(unsigned)));
  CHECKED(cudaMemcpy(device_in, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
  bool good = true;
  for (int size : {1, 2, 4, 8, 16}) {
    const int per_block = 301, all = per_block * size;
    std::vector<unsigned> expected(all), bins(all);
    for (unsigned value : in) ++expected[value % all];
    CHECKED(cudaMalloc(&device_bins, all * sizeof(unsigned)));
    CHECKED(cudaMemset(device_bins, 0, all * sizeof(unsigned)));
    if (size > 8) {
      CHECKED(cudaFuncSetAttribute(reinterpret_cast<const void*>(count_spread),
                                   cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    }
    cudaLaunchAttribute attribute;
    cudaLaunchConfig_t config = configure(16, size, per_block * sizeof(unsigned), &attribute);
    int clusters = 0;
    CHECKED(cudaOccupancyMaxActiveClusters(&clusters, count_spread, &config));
    CHECKED(cudaLaunchKernelEx(&config, count_spread, static_cast<const unsigned*>(device_in), n,
                               device_bins, per_block));
    CHECKED(cudaMemcpy(bins.data(), device_bins, all * sizeof(unsigned), cudaMemcpyDeviceToHost));
    std::printf("histogram over %d: %s, %s\n", size, bins == expected ? "equal" : "different",
                clusters > 0 ? "fits" : "does not fit");
    good = good && bins == expected && clusters > 0;
    CHECKED(cudaFree(device_bins));
  }
  CHECKED(cudaFree(device_in));
  return good;
}

static bool smoothing() {
  const int blocks = 32, n = blocks * kThreads, span = 4 * kThreads;
  std::vector<int> in(n), out(n), expected(n);
  app::Random random(12);
  for (int& value : in) value = static_cast<int>(random.next() & 0xffff);
  for (int i = 0; i < n; ++i) {
    const int first = i / span * span, at = i - first;
    expected[i] = in[first + (at + span - 1) % span] + 2 * in[i] + in[first + (at + 1) % span];
  }
  int *device_in, *device_out;
  CHECKED(cudaMalloc(&device_in, n * sizeof(int)));
  CHECKED(cudaMalloc(&device_out, n * sizeof(int)));
  CHECKED(cudaMemcpy(device_in, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  smooth<<<blocks, kThreads>>>(device_in, device_out);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy(out.data(), device_out, n * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("neighbours: %s\n", out == expected ? "equal" : "different");
  smooth<<<blocks + 1, kThreads>>>(device_in, device_out);
  std::printf("a grid of other than clusters: %s\n", cudaGetErrorName(cudaGetLastError()));
  CHECKED(cudaFree(device_in));
  CHECKED(cudaFree(device_out));
  return out == expected;
}

static bool relays() {
  const int blocks = 15, size = 5, speakers = size - 1, rounds = 9;
  std::vector<int> out(blocks), expected(blocks);
  for (int block = 0; block < blocks; ++block) {
    const int rank = block % size;
    if (rank == speakers) continue;
    int value = (rank + rounds * (speakers - 1)) % speakers + 1;  // whose word arrives at last
    for (int round = 0; round < rounds; ++round) value = value * 3 + 1;
    expected[block] = value;
  }
  int* device_out;
  CHECKED(cudaMalloc(&device_out, blocks * sizeof(int)));
  CHECKED(cudaMemset(device_out, 0, blocks * sizeof(int)));
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config = configure(blocks, size, 0, &attribute);
  CHECKED(cudaLaunchKernelEx(&config, relay, device_out, rounds));
  CHECKED(cudaMemcpy(out.data(), device_out, blocks * sizeof(int), cudaMemcpyDeviceToHost));
  std::printf("relay: %d %d, %s\n", out[0], out[3], out == expected ? "equal" : "different");
  config.gridDim.x = blocks + 1;
  std::printf("a grid of other than clusters: %s\n",
              cudaGetErrorName(cudaLaunchKernelEx(&config, relay, device_out, rounds)));
  CHECKED(cudaFree(device_out));
  return out == expected;
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  int served = 0;
  CHECKED(cudaDeviceGetAttribute(&served, cudaDevAttrClusterLaunch, 0));
  std::printf("clusters: %d\n", served);
  bool good = served != 0;
  if (good) {
    good = histograms();
    good = smoothing() && good;
    good = relays() && good;
  }
  timer.report("cluster");
  return app::finish("cluster", good);
}
