// Asks for more memory than there is; what follows works as before.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

int main() {
  size_t free_before = 0, total = 0;
  CHECKED(cudaMemGetInfo(&free_before, &total));
  void* pointer = nullptr;
  const cudaError_t error = cudaMalloc(&pointer, total + (size_t{1} << 30));
  std::printf("too much: %s, last error: %s, then: %s\n", cudaGetErrorName(error),
              cudaGetErrorName(cudaGetLastError()), cudaGetErrorName(cudaGetLastError()));
  bool good = error == cudaErrorMemoryAllocation;
  // In pieces until it is used up: at least half of what was said to be free can be had.
  std::vector<void*> pieces;
  const size_t piece = total / 16;
  while (cudaMalloc(&pointer, piece) == cudaSuccess && pieces.size() < 64) {
    pieces.push_back(pointer);
  }
  good = good && cudaGetLastError() == cudaErrorMemoryAllocation && pieces.size() <= 16 &&
         pieces.size() * piece >= free_before / 2;
  std::printf("in pieces: %s\n", good ? "bounded by the total" : "not bounded");
  for (void* each : pieces) CHECKED(cudaFree(each));
  int value = 41, back = 0;
  CHECKED(cudaMalloc(&pointer, piece));
  CHECKED(cudaMemcpy(pointer, &value, sizeof(value), cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy(&back, pointer, sizeof(back), cudaMemcpyDeviceToHost));
  CHECKED(cudaFree(pointer));
  std::printf("after: %d\n", back);
  return app::finish("oom", good && back == value);
}
