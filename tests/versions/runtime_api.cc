// Every symbol by name: the program itself is linked with no runtime.
// SPDX-License-Identifier: Apache-2.0
#include "tests/versions/runtime_api.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace vgpu_versions {
namespace {

class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) fail(dlerror());
  }

  template <typename F>
  void find(F** function, const char* name) const {
    *function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (*function == nullptr) fail(dlerror());
  }

 private:
  [[noreturn]] static void fail(const char* why) {
    std::printf("%s\n", why);
    std::exit(1);
  }

  void* handle_;
};

void find_registration(const Library& library, RuntimeApi* api) {
  library.find(&api->register_fat_binary, "__cudaRegisterFatBinary");
  library.find(&api->register_fat_binary_end, "__cudaRegisterFatBinaryEnd");
  library.find(&api->unregister_fat_binary, "__cudaUnregisterFatBinary");
  library.find(&api->register_function, "__cudaRegisterFunction");
  library.find(&api->register_var, "__cudaRegisterVar");
  library.find(&api->launch, "cudaLaunchKernel");
  library.find(&api->launch_per_thread, "cudaLaunchKernel_ptsz");
  library.find(&api->function_attributes, "cudaFuncGetAttributes");
  library.find(&api->max_active_blocks, "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags");
}

void find_device(const Library& library, RuntimeApi* api) {
  library.find(&api->runtime_version, "cudaRuntimeGetVersion");
  library.find(&api->driver_version, "cudaDriverGetVersion");
  library.find(&api->device_count, "cudaGetDeviceCount");
  library.find(&api->device_attribute, "cudaDeviceGetAttribute");
  library.find(&api->set_device, "cudaSetDevice");
  library.find(&api->device_reset, "cudaDeviceReset");
  library.find(&api->synchronize, "cudaDeviceSynchronize");
  library.find(&api->memory_info, "cudaMemGetInfo");
  library.find(&api->last_error, "cudaGetLastError");
  library.find(&api->error_name, "cudaGetErrorName");
}

void find_memory(const Library& library, RuntimeApi* api) {
  library.find(&api->allocate, "cudaMalloc");
  library.find(&api->free, "cudaFree");
  library.find(&api->host_allocate, "cudaHostAlloc");
  library.find(&api->host_free, "cudaFreeHost");
  library.find(&api->copy, "cudaMemcpy");
  library.find(&api->copy_per_thread, "cudaMemcpy_ptds");
  library.find(&api->copy_async, "cudaMemcpyAsync");
  library.find(&api->set, "cudaMemset");
  library.find(&api->copy_to_symbol, "cudaMemcpyToSymbol");
  library.find(&api->copy_from_symbol, "cudaMemcpyFromSymbol");
}

void find_streams(const Library& library, RuntimeApi* api) {
  library.find(&api->stream_create, "cudaStreamCreate");
  library.find(&api->stream_synchronize, "cudaStreamSynchronize");
  library.find(&api->stream_query, "cudaStreamQuery");
  library.find(&api->stream_wait_event, "cudaStreamWaitEvent");
  library.find(&api->stream_destroy, "cudaStreamDestroy");
  library.find(&api->event_create, "cudaEventCreate");
  library.find(&api->event_record, "cudaEventRecord");
  library.find(&api->event_synchronize, "cudaEventSynchronize");
  library.find(&api->event_elapsed, "cudaEventElapsedTime");
  library.find(&api->event_destroy, "cudaEventDestroy");
}

}  // namespace

RuntimeApi open_runtime(const char* path) {
  const Library library(path);
  RuntimeApi api;
  find_registration(library, &api);
  find_device(library, &api);
  find_memory(library, &api);
  find_streams(library, &api);
  return api;
}

}  // namespace vgpu_versions
