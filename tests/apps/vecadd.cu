// Adds two vectors; the length is no multiple of the block.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

__global__ void add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const int n = 100003;
  const size_t bytes = n * sizeof(float);
  std::vector<float> a(n), b(n), c(n, -1.0f);
  app::Random random(1);
  for (int i = 0; i < n; ++i) {
    a[i] = random.unit();
    b[i] = random.unit();
  }
  float *device_a, *device_b, *device_c;
  CHECKED(cudaMalloc(&device_a, bytes));
  CHECKED(cudaMalloc(&device_b, bytes));
  CHECKED(cudaMalloc(&device_c, bytes));
  CHECKED(cudaMemcpy(device_a, a.data(), bytes, cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy(device_b, b.data(), bytes, cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(device_a, device_b, device_c, n);
  CHECKED(cudaGetLastError());
  CHECKED(cudaMemcpy(c.data(), device_c, bytes, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += c[i] != a[i] + b[i];
  std::printf("n %d, wrong %d, hash %016llx\n", n, wrong,
              static_cast<unsigned long long>(app::hash(c.data(), bytes)));
  CHECKED(cudaFree(device_a));
  CHECKED(cudaFree(device_b));
  CHECKED(cudaFree(device_c));
  timer.report("vecadd");
  return app::finish("vecadd", wrong == 0);
}
