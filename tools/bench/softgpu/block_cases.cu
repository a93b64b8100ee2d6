// Kernels whose threads work together: reductions, histogram, bitonic sort.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tools/bench/softgpu/case.h"
#include "tools/bench/softgpu/reference.h"

namespace vgpu::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 256;
constexpr int kSegment = 1024;

__global__ void reduce_shuffle(const float* x, double* out, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) atomicAdd(out, static_cast<double>(sum));
}

__global__ void reduce_shared(const float* x, double* out, int n) {
  __shared__ float partial[kThreads];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, static_cast<double>(partial[0]));
}

__global__ void histogram(const unsigned* x, int n, unsigned* bins) {
  __shared__ unsigned own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&own[x[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

__global__ void bitonic(unsigned* keys) {
  __shared__ unsigned own[kSegment];
  const unsigned base = blockIdx.x * kSegment;
  own[threadIdx.x] = keys[base + threadIdx.x];
  own[threadIdx.x + kSegment / 2] = keys[base + threadIdx.x + kSegment / 2];
  for (unsigned size = 2; size <= kSegment; size *= 2) {
    for (unsigned step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const unsigned i = 2 * threadIdx.x - (threadIdx.x & (step - 1));
      const bool up = (i & size) == 0;
      const unsigned a = own[i], b = own[i + step];
      if ((a > b) == up) {
        own[i] = b;
        own[i + step] = a;
      }
    }
  }
  __syncthreads();
  keys[base + threadIdx.x] = own[threadIdx.x];
  keys[base + threadIdx.x + kSegment / 2] = own[threadIdx.x + kSegment / 2];
}

void add_sum(Cases* cases, const char* name, void (*kernel)(const float*, double*, int),
             const Shared<float>& x) {
  auto total = make_array<double>(1);
  cases->push_back({name, 0.5,
                    [=] {
                      cudaMemset(total->device, 0, sizeof(double));
                      kernel<<<kBlocks, kThreads>>>(x->device, total->device,
                                                    static_cast<int>(x->host.size()));
                      finish_kernels(name);
                    },
                    [=] { reference::sum(x->host.data(), x->host.size(), total->host.data()); },
                    [=] { return compare(*total, 1e-5); }});
}

}  // namespace

void add_block_cases(Cases* cases, size_t scale) {
  const size_t n = (16u << 20) / scale;
  auto x = make_array<float>(n);
  fill(&x->host, 4, 0, 1);
  x->upload();
  add_sum(cases, "reduction, shuffles", reduce_shuffle, x);
  add_sum(cases, "reduction, shared memory", reduce_shared, x);

  auto words = make_array<unsigned>(n);
  for (size_t i = 0; i < n; ++i) words->host[i] = static_cast<unsigned>(i * 2654435761u >> 7);
  words->upload();
  auto bins = make_array<unsigned>(256);
  cases->push_back({"histogram, shared atomics", 0.4,
                    [=] {
                      cudaMemset(bins->device, 0, 256 * sizeof(unsigned));
                      histogram<<<kBlocks, 256>>>(words->device, static_cast<int>(n), bins->device);
                      finish_kernels("histogram");
                    },
                    [=] { reference::histogram(words->host.data(), n, bins->host.data()); },
                    [=] { return compare(*bins, 0); }});

  // The network takes as long for sorted keys as for others, but for the branches of the C++ side.
  const size_t keys = n / 16;
  auto unsorted = make_array<unsigned>(keys), sorted = make_array<unsigned>(keys);
  for (size_t i = 0; i < keys; ++i) unsorted->host[i] = static_cast<unsigned>(i * 2654435761u);
  unsorted->upload();
  cases->push_back({"bitonic sort in shared memory", 0.5,
                    [=] {
                      cudaMemcpyAsync(sorted->device, unsorted->device, keys * sizeof(unsigned),
                                      cudaMemcpyDeviceToDevice);
                      bitonic<<<static_cast<int>(keys / kSegment), kSegment / 2>>>(sorted->device);
                      finish_kernels("bitonic");
                    },
                    [=] {
                      sorted->host = unsorted->host;
                      reference::bitonic(sorted->host.data(), keys, kSegment);
                    },
                    [=] { return compare(*sorted, 0); }});
}

}  // namespace vgpu::bench
