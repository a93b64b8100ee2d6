// One kernel on each device that the program sees, and nothing else: what a further device costs.
// SPDX-License-Identifier: Apache-2.0
#include "app.h"

__global__ void store(int* to, int value) { *to = value; }

int main() {
  int count = 0;
  CHECKED(cudaGetDeviceCount(&count));
  bool good = count > 0;
  for (int device = 0; device < count; ++device) {
    CHECKED(cudaSetDevice(device));
    int* word = nullptr;
    CHECKED(cudaMalloc(&word, sizeof(int)));
    store<<<1, 1>>>(word, 100 + device);
    int value = 0;
    CHECKED(cudaMemcpy(&value, word, sizeof(int), cudaMemcpyDeviceToHost));
    good = good && value == 100 + device;
  }
  std::printf("%d devices\n", count);
  return app::finish("each_device", good);
}
