// The execution side of one context: its queues, its stop flag and its sticky error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vgpu::softgpu {

class StreamQueue;

// One context as the engines see it. `queues` and the queues' contents are guarded by
// GridManagement's mutex.
struct Channel {
  // Non-zero: running blocks leave at their next poll. Set by a fault or by destruction, read by
  // the SMs when their attention is asked for.
  std::atomic<uint32_t> stop{0};
  // First fault; CUDA_SUCCESS until then. Release/acquire with whoever reports it.
  std::atomic<int> error{CUDA_SUCCESS};
  // Commands submitted to the legacy stream and to blocking streams that are not complete yet.
  std::atomic<uint64_t> blocking_outstanding{0};
  // Launches from kernels whose grids have not begun, and events that kernels have made. Counts
  // only: relaxed.
  std::atomic<uint32_t> pending_launches{0}, device_events{0};
  std::shared_ptr<StreamQueue> legacy;
  std::vector<std::shared_ptr<StreamQueue>> queues;  // all but the legacy one

  CUresult sticky() const { return static_cast<CUresult>(error.load(std::memory_order_acquire)); }
};

}  // namespace vgpu::softgpu
