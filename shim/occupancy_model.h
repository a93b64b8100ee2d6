// How many blocks of a kernel fit on one multiprocessor: arithmetic only.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_OCCUPANCY_MODEL_H_
#define VGPU_SHIM_OCCUPANCY_MODEL_H_

#include <cstdint>

namespace vgpu::shim {

// What a multiprocessor has. Values of the device's attributes.
struct MultiprocessorLimits {
  int compute_major = 0;
  int warp_size = 32;
  int threads_per_block_max = 1024;
  int threads_max = 2048;
  int blocks_max = 32;
  int registers = 65536;
  int registers_per_block_max = 65536;
  int shared_bytes = 0;                // of the multiprocessor
  int shared_per_block_max = 0;        // without opting in
  int shared_per_block_optin_max = 0;  // with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  int shared_reserved_per_block = 0;   // by the driver, since compute capability 8.0
};

// What a kernel takes.
struct KernelDemand {
  int registers = 0;  // per thread
  int threads_per_block_max = 1024;
  int static_shared_bytes = 0;
  int dynamic_shared_max = 0;  // what the function attribute allows; 0: the device's default
};

// Blocks of `threads` threads and `dynamic_shared` bytes that are resident on one multiprocessor at
// a time; 0 when none can be. `threads` must be positive.
int active_blocks(const MultiprocessorLimits& limits, const KernelDemand& kernel, int threads,
                  uint64_t dynamic_shared);

// Most dynamic shared memory that still lets `blocks` blocks of `threads` threads be resident.
uint64_t available_dynamic_shared(const MultiprocessorLimits& limits, const KernelDemand& kernel,
                                  int blocks, int threads);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_OCCUPANCY_MODEL_H_
