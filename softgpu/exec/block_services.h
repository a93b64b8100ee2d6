// What the runtime helpers called by compiled kernels need of the block that runs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softgpu/exec/barrier.h"
#include "softgpu/exec/block.h"

namespace vgpu::softgpu {

// One per BlockRunner; a WarpContext points to it.
class BlockServices {
 public:
  DeviceServices* device = nullptr;
  BarrierUnit barriers;
  Fault fault;
  ProfileCounters* profile = nullptr;  // counts of the launch; nullptr = no profile
  uint64_t local_bytes = 0;            // of all threads of a warp
  // Ends the block with a fault: leaves the compiled code and every helper below run() at once,
  // without running destructors, so callers own nothing that needs one. Only below
  // BlockRunner::run().
  [[noreturn]] void abort(CUresult code, uint64_t address, const char* text);
};

}  // namespace vgpu::softgpu
