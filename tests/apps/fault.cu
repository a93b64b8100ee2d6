// Writes to an illegal address: the error appears, and stays.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

__global__ void poke(int* where) { *where = 1; }
__global__ void set(int* where) { *where = 2; }

int main() {
  int* device;
  CHECKED(cudaMalloc(&device, sizeof(int)));
  set<<<1, 1>>>(device);
  CHECKED(cudaDeviceSynchronize());
  std::printf("before: %s\n", cudaGetErrorName(cudaGetLastError()));
  poke<<<1, 1>>>(reinterpret_cast<int*>(0x10));
  const cudaError_t first = cudaDeviceSynchronize();
  std::printf("synchronize: %s\n", cudaGetErrorName(first));
  set<<<1, 1>>>(device);
  const cudaError_t launch = cudaGetLastError();
  std::printf("launch after: %s\n", cudaGetErrorName(launch));
  int value = 0;
  const cudaError_t copy = cudaMemcpy(&value, device, sizeof(int), cudaMemcpyDeviceToHost);
  std::printf("copy after: %s\n", cudaGetErrorName(copy));
  int* more;
  const cudaError_t allocation = cudaMalloc(&more, 16);
  std::printf("malloc after: %s\n", cudaGetErrorName(allocation));
  const bool good = first == cudaErrorIllegalAddress && launch == cudaErrorIllegalAddress &&
                    copy == cudaErrorIllegalAddress && allocation == cudaErrorIllegalAddress;
  return app::finish("fault", good);
}
