// Multiplies matrices with shared-memory tiles of 16 and of 32.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "app.h"

template <int kTile>
__global__ void multiply(const float* a, const float* b, float* c, int n) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y;
  const int row = blockIdx.y * kTile + y, column = blockIdx.x * kTile + x;
  float sum = 0;
  for (int step = 0; step < n; step += kTile) {
    tile_a[y][x] = row < n && step + x < n ? a[row * n + step + x] : 0;
    tile_b[y][x] = step + y < n && column < n ? b[(step + y) * n + column] : 0;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += tile_a[y][k] * tile_b[k][x];
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

template <int kTile>
bool run(int n) {
  std::vector<float> a(n * n), b(n * n), c(n * n);
  app::Random random(n);
  for (float& value : a) value = random.unit() - 0.5f;
  for (float& value : b) value = random.unit() - 0.5f;
  const size_t bytes = a.size() * sizeof(float);
  float* device[3];
  for (float*& pointer : device) CHECKED(cudaMalloc(&pointer, bytes));
  CHECKED(cudaMemcpy(device[0], a.data(), bytes, cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy(device[1], b.data(), bytes, cudaMemcpyHostToDevice));
  const int blocks = (n + kTile - 1) / kTile;
  multiply<kTile><<<dim3(blocks, blocks), dim3(kTile, kTile)>>>(device[0], device[1], device[2], n);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy(c.data(), device[2], bytes, cudaMemcpyDeviceToHost));
  double worst = 0;
  for (int row = 0; row < n; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int k = 0; k < n; ++k) sum += double(a[row * n + k]) * b[k * n + column];
      worst = std::fmax(worst, std::fabs(sum - c[row * n + column]));
    }
  }
  for (float* pointer : device) CHECKED(cudaFree(pointer));
  std::printf("n %d, tile %d: %s\n", n, kTile, worst < 1e-4 ? "within 1e-4" : "too far off");
  return worst < 1e-4;
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const bool good = run<16>(200) & run<32>(200) & run<16>(64) & run<32>(64);
  timer.report("matmul");
  return app::finish("matmul", good);
}
