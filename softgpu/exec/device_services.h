// What running kernels ask of the device around them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace vgpu::softgpu {

// Implemented by the device; called from SM worker threads, possibly several at once. Must not
// throw or block long.
class DeviceServices {
 public:
  virtual ~DeviceServices() = default;
  // One formatted printf of one thread.
  virtual void print(std::string_view text) = 0;
  // malloc and free inside kernels; 0 when the heap is exhausted.
  virtual uint64_t heap_alloc(uint64_t bytes) = 0;
  virtual void heap_free(uint64_t address) = 0;
  // cudaGraphSetConditional. False: no handle of the context that the kernel runs in.
  virtual bool set_conditional(uint64_t handle, uint32_t value) = 0;
  // The text of a failed assert; the block then ends with CUDA_ERROR_ASSERT.
  virtual void assert_failed(std::string_view text) = 0;
};

}  // namespace vgpu::softgpu
