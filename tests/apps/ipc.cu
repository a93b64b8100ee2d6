// Several processes work on one piece of device memory: one makes it, the others open its handle.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"

constexpr int kWorkers = 3;
constexpr int kWords = 3 << 20;  // 12 MiB, a third for each

__global__ void square(unsigned* words, int from, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[from + i] = words[from + i] * words[from + i];
}

struct Handles {
  cudaIpcMemHandle_t words, sums;
};

bool receive(int pipe, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes != 0) {
    const ssize_t got = read(pipe, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// The part of worker `index`, in a process of its own.
int work(int index, int pipe) {
  Handles handles;
  if (!receive(pipe, &handles, sizeof(handles))) return 1;
  void *opened, *again, *sums_opened;
  CHECKED(cudaIpcOpenMemHandle(&opened, handles.words, cudaIpcMemLazyEnablePeerAccess));
  CHECKED(cudaIpcOpenMemHandle(&again, handles.words, cudaIpcMemLazyEnablePeerAccess));
  CHECKED(cudaIpcOpenMemHandle(&sums_opened, handles.sums, cudaIpcMemLazyEnablePeerAccess));
  if (opened != again) return 2;
  CHECKED(cudaIpcCloseMemHandle(again));
  auto* words = static_cast<unsigned*>(opened);
  const int part = kWords / kWorkers;
  square<<<(part + 255) / 256, 256>>>(words, index * part, part);
  CHECKED(cudaGetLastError());
  auto* mine = new unsigned[part];
  CHECKED(cudaMemcpy(mine, words + index * part, part * sizeof(unsigned), cudaMemcpyDeviceToHost));
  const uint64_t sum = app::hash(mine, part * sizeof(unsigned));
  CHECKED(cudaMemcpy(static_cast<uint64_t*>(sums_opened) + index, &sum, sizeof(sum),
                     cudaMemcpyHostToDevice));
  CHECKED(cudaIpcCloseMemHandle(sums_opened));
  CHECKED(cudaIpcCloseMemHandle(opened));
  if (cudaIpcCloseMemHandle(opened) != cudaErrorInvalidValue) return 3;
  delete[] mine;
  CHECKED(cudaDeviceSynchronize());
  return 0;
}

int main() {
  int pipes[kWorkers][2];
  pid_t workers[kWorkers];
  for (int i = 0; i < kWorkers; ++i) {  // before the first call: the device is each process' own
    if (pipe(pipes[i]) != 0) return 1;
    workers[i] = fork();
    if (workers[i] == 0) {
      close(pipes[i][1]);
      std::exit(work(i, pipes[i][0]));
    }
  }
  unsigned* words;
  uint64_t* sums;
  CHECKED(cudaMalloc(&words, kWords * sizeof(unsigned)));
  CHECKED(cudaMalloc(&sums, kWorkers * sizeof(uint64_t)));
  auto* host = new unsigned[kWords];
  app::Random random(7);
  for (int i = 0; i < kWords; ++i) host[i] = static_cast<unsigned>(random.next());
  CHECKED(cudaMemcpy(words, host, kWords * sizeof(unsigned), cudaMemcpyHostToDevice));
  CHECKED(cudaMemset(sums, 0, kWorkers * sizeof(uint64_t)));
  Handles handles;
  CHECKED(cudaIpcGetMemHandle(&handles.words, words));
  CHECKED(cudaIpcGetMemHandle(&handles.sums, sums));
  void* own = nullptr;
  const cudaError_t at_home =
      cudaIpcOpenMemHandle(&own, handles.words, cudaIpcMemLazyEnablePeerAccess);
  std::printf("opened at home: %s\n", cudaGetErrorName(at_home));
  CHECKED(cudaDeviceSynchronize());
  bool good = at_home == cudaErrorDeviceUninitialized;
  for (int i = 0; i < kWorkers; ++i)
    good = write(pipes[i][1], &handles, sizeof(handles)) == sizeof(handles) && good;
  for (int i = 0; i < kWorkers; ++i) {
    int status = -1;
    good = waitpid(workers[i], &status, 0) == workers[i] && status == 0 && good;
    std::printf("worker %d: %s\n", i, status == 0 ? "done" : "failed");
  }
  auto* back = new unsigned[kWords];
  uint64_t found[kWorkers];
  CHECKED(cudaMemcpy(back, words, kWords * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECKED(cudaMemcpy(found, sums, sizeof(found), cudaMemcpyDeviceToHost));
  for (int i = 0; i < kWords; ++i) good = good && back[i] == host[i] * host[i];
  const int part = kWords / kWorkers;
  for (int i = 0; i < kWorkers; ++i)
    good = good && found[i] == app::hash(back + i * part, part * sizeof(unsigned));
  std::printf("hash %016llx\n",
              static_cast<unsigned long long>(app::hash(back, kWords * sizeof(unsigned))));
  CHECKED(cudaFree(words));
  CHECKED(cudaFree(sums));
  return app::finish("ipc", good);
}
