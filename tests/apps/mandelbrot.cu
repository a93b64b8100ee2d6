// Escape times over a grid: long, divergent loops in double precision.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

constexpr int kIterationsMax = 200;

// Explicit rounding keeps host and device equal: no contraction to fused operations.
__host__ __device__ inline double times(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  volatile double product = a * b;
  return product;
#endif
}

__host__ __device__ inline int escape_time(double cx, double cy) {
  double x = 0, y = 0;
  int i = 0;
  for (; i < kIterationsMax; ++i) {
    const double xx = times(x, x), yy = times(y, y);
    if (xx + yy > 4) break;
    y = 2 * times(x, y) + cy;
    x = xx - yy + cx;
  }
  return i;
}

__global__ void render(int* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  out[y * width + x] = escape_time(-2 + 0.015625 * x, -1.25 + 0.015625 * y);
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const int width = 190, height = 161;
  std::vector<int> image(width * height);
  int* device;
  const size_t bytes = image.size() * sizeof(int);
  CHECKED(cudaMalloc(&device, bytes));
  render<<<dim3((width + 15) / 16, (height + 15) / 16), dim3(16, 16)>>>(device, width, height);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy(image.data(), device, bytes, cudaMemcpyDeviceToHost));
  int wrong = 0, inside = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int expected = escape_time(-2 + 0.015625 * x, -1.25 + 0.015625 * y);
      wrong += image[y * width + x] != expected;
      inside += expected == kIterationsMax;
    }
  }
  std::printf("%d x %d, inside %d, wrong %d\n", width, height, inside, wrong);
  timer.report("mandelbrot");
  return app::finish("mandelbrot", wrong == 0);
}
