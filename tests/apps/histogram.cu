// Counts bytes with shared-memory atomics, and again with global atomics only.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

constexpr int kBins = 256;

__global__ void count_shared(const unsigned char* in, int n, unsigned* bins) {
  __shared__ unsigned local[kBins];
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[in[i]], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kBins; i += blockDim.x) {
    if (local[i] != 0) atomicAdd(&bins[i], local[i]);
  }
}

__global__ void count_global(const unsigned char* in, int n, unsigned* bins) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&bins[in[i]], 1u);
  }
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const int n = 200001;
  std::vector<unsigned char> in(n);
  std::vector<unsigned> expected(kBins), bins(kBins);
  app::Random random(4);
  for (unsigned char& byte : in) {
    byte = static_cast<unsigned char>((random.next() & random.next()) & 255);
    ++expected[byte];
  }
  unsigned char* device_in;
  unsigned* device_bins;
  CHECKED(cudaMalloc(&device_in, n));
  CHECKED(cudaMalloc(&device_bins, kBins * sizeof(unsigned)));
  CHECKED(cudaMemcpy(device_in, in.data(), n, cudaMemcpyHostToDevice));
  bool good = true;
  for (int kind = 0; kind < 2; ++kind) {
    CHECKED(cudaMemset(device_bins, 0, kBins * sizeof(unsigned)));
    if (kind == 0) {
      count_shared<<<16, 192>>>(device_in, n, device_bins);
    } else {
      count_global<<<16, 192>>>(device_in, n, device_bins);
    }
    CHECKED(cudaGetLastError());
    CHECKED(cudaMemcpy(bins.data(), device_bins, kBins * sizeof(unsigned), cudaMemcpyDeviceToHost));
    std::printf("%s: bin 0 %u, bin 255 %u, %s\n", kind == 0 ? "shared" : "global", bins[0],
                bins[255], bins == expected ? "equal" : "different");
    good = good && bins == expected;
  }
  timer.report("histogram");
  return app::finish("histogram", good);
}
