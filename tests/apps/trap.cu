// Kernels that end themselves: __trap, and with an argument assert.
// SPDX-License-Identifier: Apache-2.0
#undef NDEBUG
#include <unistd.h>
#include <cassert>

#include "app.h"

__global__ void trap_some(int lane) {
  if (static_cast<int>(threadIdx.x) == lane) __trap();
}
__global__ void assert_some(int lane) {
  const int t = static_cast<int>(threadIdx.x);
  assert(t != lane);
}

namespace {

// The text on stderr while the kernel runs, as far as it comes from this process.
int run_assert() {
  std::FILE* file = std::tmpfile();
  const int saved = dup(2);
  dup2(fileno(file), 2);
  assert_some<<<dim3(2, 1, 1), dim3(64, 1, 1)>>>(37);
  const cudaError_t error = cudaDeviceSynchronize();
  std::fflush(stderr);
  dup2(saved, 2);
  char text[4096];
  std::rewind(file);
  text[std::fread(text, 1, sizeof text - 1, file)] = 0;
  const char* want = "block: [0,0,0], thread: [37,0,0] Assertion `t != lane` failed.\n";
  const bool found = std::strstr(text, want) != nullptr &&
                     std::strstr(text, "trap.cu:") != nullptr &&
                     std::strstr(text, "assert_some(int)") != nullptr;
  std::printf("assert: %s, text %s\n", cudaGetErrorName(error), found ? "as native" : text);
  return error == cudaErrorAssert && found;
}

// The text goes where it goes.
int run_assert_aloud() {
  assert_some<<<1, 64>>>(37);
  std::printf("assert: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  return app::finish("assert", true);
}

}  // namespace

int main(int argc, char** argv) {
  if (app::wants(argc, argv, "aloud")) return run_assert_aloud();
  if (app::wants(argc, argv, "assert")) return app::finish("assert", run_assert() != 0);
  trap_some<<<1, 64>>>(64);
  CHECKED(cudaDeviceSynchronize());
  trap_some<<<1, 64>>>(40);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("trap: %s\n", cudaGetErrorName(error));
  return app::finish("trap", error == cudaErrorLaunchFailure);
}
