// Copies larger than any staging buffer, at odd offsets, pageable and pinned, device to device.
// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "app.h"

int main(int argc, char** argv) {
  const app::Timer timer(argc, argv);
  const size_t bytes = (size_t{48} << 20) + 4321;
  std::vector<unsigned char> in(bytes + 1), out(bytes + 1);
  app::Random random(8);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t value = random.next();
    std::memcpy(&in[i], &value, 8);
  }
  unsigned char *first, *second, *pinned;
  CHECKED(cudaMalloc(&first, bytes));
  CHECKED(cudaMalloc(&second, bytes));
  CHECKED(cudaMallocHost(&pinned, bytes));
  CHECKED(cudaMemcpy(first, in.data() + 1, bytes, cudaMemcpyHostToDevice));
  CHECKED(cudaMemcpy(second, first, bytes, cudaMemcpyDeviceToDevice));
  CHECKED(cudaMemcpy(out.data() + 1, second, bytes, cudaMemcpyDeviceToHost));
  const bool pageable = std::memcmp(in.data() + 1, out.data() + 1, bytes) == 0;
  std::printf("pageable: %s\n", pageable ? "equal" : "different");
  timer.report("pageable");
  CHECKED(cudaMemset(first, 0x5a, bytes));
  CHECKED(cudaMemcpyAsync(first + 17, second + 17, bytes - 40, cudaMemcpyDeviceToDevice));
  CHECKED(cudaMemcpyAsync(pinned, first, bytes, cudaMemcpyDeviceToHost));
  CHECKED(cudaDeviceSynchronize());
  bool good = std::memcmp(pinned + 17, in.data() + 18, bytes - 40) == 0;
  for (size_t i = 0; i < 17; ++i) good = good && pinned[i] == 0x5a;
  for (size_t i = bytes - 23; i < bytes; ++i) good = good && pinned[i] == 0x5a;
  std::printf("pinned: %s\n", good ? "equal" : "different");
  CHECKED(cudaFreeHost(pinned));
  CHECKED(cudaFree(first));
  CHECKED(cudaFree(second));
  timer.report("all");
  return app::finish("big_copy", pageable && good);
}
