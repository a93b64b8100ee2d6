// What the device runtime of running kernels asks of the driver around them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "softgpu/exec/block.h"

namespace vgpu::softgpu {

struct Command;
struct Grid;

// Numbers that NVIDIA's device runtime translates into cudaError_t; read off its own table.
enum class CnpError : uint32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kInvalidDevice = 3,
  kOutOfMemory = 4,
  kDepthExceeded = 5,
  kOutOfResources = 6,
  kInvalidConfiguration = 7,
  kUnsupportedLimit = 13,
};

struct ChildShape {
  Dim3 grid, block;
  uint32_t shared_bytes = 0;
};

// Implemented by modules, for the grids of their kernels. Called from SMs, several at once; must
// not touch memory of the program. `function`: the value that stands for a kernel in the module's
// code.
class KernelHost {
 public:
  virtual ~KernelHost() = default;
  // A launch by a block of `parent`: checked, its parameters zero, ready to be submitted. Starts
  // the compiler where the kernel's code is not there yet.
  virtual CnpError make_child(Grid& parent, uint64_t function, const ChildShape& shape,
                              std::unique_ptr<Command>* command) = 0;
  virtual CnpError function_attribute(uint64_t function, uint32_t attribute, int* value) = 0;
  virtual CnpError resident_blocks(uint64_t function, int threads, uint64_t shared_bytes,
                                   int* blocks) = 0;
  virtual CnpError limit(uint32_t which, uint64_t* value) = 0;
  // Launches from kernels that may wait in the context.
  virtual uint32_t pending_launches_max() = 0;
  virtual CnpError device_attribute(uint32_t attribute, int device, int* value) = 0;
  virtual int device_count() = 0;
  virtual int device() = 0;
  virtual int cache_config() = 0;
  virtual int shared_config() = 0;
};

}  // namespace vgpu::softgpu
