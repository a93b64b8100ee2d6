// Processes that end while the software GPU compiles a kernel for them: a few, one by one.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "app.h"

// Much text: the sine's way for large arguments, over and over.
__global__ void large(float* data) {
  float x = data[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 12; ++i) x = sinf(x * static_cast<float>(i + 1)) + tanf(x);
  data[threadIdx.x] = x;
}

int main(int argc, char** argv) {
  if (app::wants(argc, argv, "--once")) {
    float* data = nullptr;
    CHECKED(cudaMalloc(&data, 128 * sizeof(float)));
    large<<<1, 128>>>(data);
    return 0;
  }
  bool good = true;
  const std::string once = std::string(argv[0]) + " --once";
  for (int i = 0; i < 5; ++i) good &= std::system(once.c_str()) == 0;
  return app::finish("exit_compiling", good);
}
