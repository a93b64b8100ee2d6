// Runs one thread block on the calling thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "softgpu/exec/device_services.h"
#include "softgpu/exec/profile_counters.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {

class Cluster;
struct Grid;

// What all blocks of a grid share. Outlives every BlockRunner that works on it.
struct GridParams {
  Dim3 grid, block;
  Dim3 cluster{0, 0, 0};  // in blocks, a divisor of `grid`; zeros: launched without clusters
  uint32_t dynamic_shared_bytes = 0;
  const uint8_t* params = nullptr;
  uint64_t grid_id = 0;
  const std::atomic<uint32_t>* stop = nullptr;  // non-zero: running blocks leave at their next poll
  DeviceServices* services = nullptr;
  Grid* owner = nullptr;               // for launches by the kernel; nullptr = it cannot launch
  uint64_t cooperative_workspace = 0;  // address of the grid barrier's word; 0 = not cooperative
  uint32_t sm_count = 1;
  ProfileCounters* profile = nullptr;  // of instrumented kernels; outlives the grid
  uint32_t stack_limit = 1024;         // bytes per thread for recursion and alloca

  bool clustered() const { return cluster.x != 0; }
  uint32_t cluster_blocks() const { return cluster.x * cluster.y * cluster.z; }
};

// A block's window: static variables and the dynamic part.
uint32_t shared_bytes_of(const CompiledKernel& kernel, const GridParams& grid);

enum class BlockStep { kFinished, kYielded, kInterrupted, kFault, kStopped };

struct Fault {
  CUresult code = CUDA_SUCCESS;
  uint64_t address = 0;
  std::string kernel;
  std::string text;
};

// Holds the warp contexts, shared and local memory of one block at a time; its memory is kept
// between blocks. One thread at a time. A block that yielded may be continued from another thread.
class BlockRunner {
 public:
  // `attention`: while it is non-zero, blocks come back (kInterrupted, or kStopped) from their next
  // loop; nullptr = they look at the grid's stop flag only.
  explicit BlockRunner(const std::atomic<uint32_t>* attention = nullptr);
  ~BlockRunner();
  BlockRunner(const BlockRunner&) = delete;
  BlockRunner& operator=(const BlockRunner&) = delete;

  // Prepares a block. False when its shared or local memory cannot be had
  // (CUDA_ERROR_OUT_OF_MEMORY). `cluster`: of a grid with clusters, begun, the same for all its
  // blocks; `kernel` was compiled for clusters then.
  bool begin(const CompiledKernel& kernel, const GridParams& grid, const Dim3& block_index,
             uint32_t sm_id, std::shared_ptr<Cluster> cluster = nullptr);
  // Runs until the block ends, every warp spins or waits (kYielded: call again), attention is asked
  // for (kInterrupted: call again), or a fault. Never blocks the thread.
  BlockStep run();
  // Whether the last run() did more than find that everybody still waits.
  bool advanced() const;
  const Fault& fault() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vgpu::softgpu
