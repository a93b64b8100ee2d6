// What the runtime helpers called by compiled kernels need of the block that runs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "softgpu/exec/barrier.h"
#include "softgpu/exec/block.h"
#include "softgpu/exec/cluster_barrier.h"
#include "softgpu/exec/device_runtime.h"

namespace vgpu::softgpu {

// One per BlockRunner; a WarpContext points to it.
class BlockServices {
 public:
  DeviceServices* device = nullptr;
  BarrierUnit barriers;
  ClusterBarrier cluster_barrier;
  Fault fault;
  ProfileCounters* profile = nullptr;  // counts of the launch; nullptr = no profile
  uint64_t local_bytes = 0;            // of all threads of a warp
  // Made when the kernel first calls it.
  DeviceRuntime& device_runtime() {
    if (runtime_ == nullptr) runtime_ = std::make_unique<DeviceRuntime>();
    if (!runtime_used_) runtime_->begin(grid);
    runtime_used_ = true;
    return *runtime_;
  }
  // The block has ended.
  void end_block() {
    if (runtime_used_) runtime_->end();
    runtime_used_ = false;
  }
  Grid* grid = nullptr;  // nullptr: the kernel cannot launch anything
  // Ends the block with a fault: leaves the compiled code and every helper below run() at once,
  // without running destructors, so callers own nothing that needs one. Only below
  // BlockRunner::run().
  [[noreturn]] void abort(CUresult code, uint64_t address, const char* text);

 private:
  std::unique_ptr<DeviceRuntime> runtime_;
  bool runtime_used_ = false;
};

}  // namespace vgpu::softgpu
