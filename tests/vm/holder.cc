// A guest that holds device memory for so many seconds and calls all the time, or until a call
// fails. SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <dlfcn.h>
#include <poll.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr size_t kBytes = 64 << 20;
constexpr unsigned char kPattern = 0xa5;
constexpr int kPauseMs = 20;

void* cuda() {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

// Calls a driver function by its name in the library.
template <typename... Args>
CUresult call(const char* name, Args... args) {
  void* const found = cuda() == nullptr ? nullptr : dlsym(cuda(), name);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  return reinterpret_cast<CUresult (*)(Args...)>(found)(args...);
}

int say(const char* what, CUresult result) {
  std::printf("%s %d\n", what, static_cast<int>(result));
  return result == CUDA_SUCCESS ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  CUresult result = call("cuInit", 0u);
  if (result == CUDA_SUCCESS) result = call("cuDeviceGet", &device, 0);
  if (result == CUDA_SUCCESS) result = call("cuDevicePrimaryCtxRetain", &context, device);
  if (result == CUDA_SUCCESS) result = call("cuCtxSetCurrent", context);
  if (result == CUDA_SUCCESS) result = call("cuMemAlloc_v2", &memory, kBytes);
  if (result == CUDA_SUCCESS) result = call("cuMemsetD8_v2", memory, kPattern, kBytes);
  if (result != CUDA_SUCCESS) return say("refused", result);
  (void)say("holds", result);
  for (int i = 0; i < seconds * 1000 / kPauseMs; ++i) {
    unsigned char byte = 0;
    result = call("cuMemcpyDtoH_v2", static_cast<void*>(&byte), memory + kBytes - 1, sizeof(byte));
    if (result != CUDA_SUCCESS) return say("lost", result);
    if (byte != kPattern) return say("wrong", CUDA_ERROR_UNKNOWN);
    (void)poll(nullptr, 0, kPauseMs);
  }
  return say("done", CUDA_SUCCESS);
}
