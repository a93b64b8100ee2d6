// Built without PTX: a device that is not of this architecture must say that it has no code for it.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

__global__ void set(int* where) { *where = 1; }

int main() {
  int* device;
  CHECKED(cudaMalloc(&device, sizeof(int)));
  set<<<1, 1>>>(device);
  const cudaError_t error = cudaGetLastError();
  std::printf("launch: %s\n", cudaGetErrorName(error));
  return app::finish("sass_only", error == cudaErrorNoKernelImageForDevice);
}
