// Forks after using the device: the child gets an error, the parent goes on unharmed.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

__global__ void set(int* where, int value) { *where = value; }

bool round_trip(int* device, int value) {
  set<<<1, 1>>>(device, value);
  int back = 0;
  return cudaMemcpy(&back, device, sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess &&
         back == value;
}

int main() {
  int* device;
  CHECKED(cudaMalloc(&device, sizeof(int)));
  bool good = round_trip(device, 5);
  std::printf("parent before: %s\n", good ? "right" : "wrong");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    const bool refused =
        cudaMalloc(&pointer, 64) != cudaSuccess && cudaDeviceSynchronize() != cudaSuccess;
    _exit(refused ? 0 : 1);  // no hang, no crash, an error
  }
  int status = -1;
  good = good && waitpid(child, &status, 0) == child && status == 0;
  std::printf("child: %s\n", status == 0 ? "was refused" : "was served or died");
  const bool after = round_trip(device, 6);
  std::printf("parent after: %s\n", after ? "right" : "wrong");
  CHECKED(cudaFree(device));
  return app::finish("fork_child", good && after);
}
