// The entry points of a libcudart that is opened by its path: those whose signatures are the same
// from CUDA 11 to today.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace vgpu_versions {

struct RuntimeApi {
  // What nvcc's generated code calls.
  void** (*register_fat_binary)(void* wrapper);
  void (*register_fat_binary_end)(void** handle);
  void (*unregister_fat_binary)(void** handle);
  void (*register_function)(void** handle, const void* stub, char* device_name, const char* name,
                            int thread_limit, void*, void*, void*, void*, int*);
  void (*register_var)(void** handle, char* shadow, char* device_name, const char* name,
                       int is_external, size_t bytes, int is_constant, int is_global);

  cudaError_t (*runtime_version)(int*);
  cudaError_t (*driver_version)(int*);
  cudaError_t (*device_count)(int*);
  cudaError_t (*device_attribute)(int*, int attribute, int device);
  cudaError_t (*set_device)(int);
  cudaError_t (*device_reset)();
  cudaError_t (*synchronize)();
  cudaError_t (*memory_info)(size_t* free, size_t* total);
  cudaError_t (*last_error)();
  const char* (*error_name)(cudaError_t);

  cudaError_t (*allocate)(void**, size_t);
  cudaError_t (*free)(void*);
  cudaError_t (*host_allocate)(void**, size_t, unsigned flags);
  cudaError_t (*host_free)(void*);
  cudaError_t (*copy)(void* to, const void* from, size_t, int kind);
  cudaError_t (*copy_per_thread)(void* to, const void* from, size_t, int kind);
  cudaError_t (*copy_async)(void* to, const void* from, size_t, int kind, cudaStream_t);
  cudaError_t (*set)(void*, int value, size_t);
  cudaError_t (*copy_to_symbol)(const void* symbol, const void* from, size_t, size_t offset,
                                int kind);
  cudaError_t (*copy_from_symbol)(void* to, const void* symbol, size_t, size_t offset, int kind);

  cudaError_t (*launch)(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                        cudaStream_t);
  cudaError_t (*launch_per_thread)(const void* stub, dim3 grid, dim3 block, void** arguments,
                                   size_t shared, cudaStream_t);
  cudaError_t (*function_attributes)(void* attributes, const void* stub);
  cudaError_t (*max_active_blocks)(int*, const void* stub, int block, size_t shared,
                                   unsigned flags);

  cudaError_t (*stream_create)(cudaStream_t*);
  cudaError_t (*stream_synchronize)(cudaStream_t);
  cudaError_t (*stream_query)(cudaStream_t);
  cudaError_t (*stream_wait_event)(cudaStream_t, cudaEvent_t, unsigned flags);
  cudaError_t (*stream_destroy)(cudaStream_t);
  cudaError_t (*event_create)(cudaEvent_t*);
  cudaError_t (*event_record)(cudaEvent_t, cudaStream_t);
  cudaError_t (*event_synchronize)(cudaEvent_t);
  cudaError_t (*event_elapsed)(float* milliseconds, cudaEvent_t, cudaEvent_t);
  cudaError_t (*event_destroy)(cudaEvent_t);
};

// Opens the library; a missing file or symbol is printed and ends the program with 1.
RuntimeApi open_runtime(const char* path);

}  // namespace vgpu_versions
