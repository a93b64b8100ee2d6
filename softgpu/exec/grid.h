// One launched kernel on its way through the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softgpu/exec/block.h"
#include "softgpu/exec/channel.h"
#include "softgpu/exec/launch_profile.h"
#include "softgpu/exec/sm_mask.h"

namespace vgpu::softgpu {

struct Command;
struct GridFamily;
class GridManagement;
class KernelHost;
class WorkDistributor;

// What cooperative groups keep at the workspace: its size, then the barrier word.
inline constexpr size_t kBarrierWords = 16;

// How deep grids that kernels launch may nest, below the host's.
inline constexpr uint32_t kLaunchNestingMax = 24;

struct Grid {
  Grid();
  ~Grid();
  // What its kernels have made for themselves; made at the first call. Thread-safe.
  GridFamily& family();
  GridFamily* family_if_any() const { return family_.get(); }

  const CompiledKernel* kernel = nullptr;
  std::shared_ptr<KernelHost> host;  // the module that owns the code
  GridParams params;
  std::vector<uint8_t> param_bytes;          // params.params points here
  std::unique_ptr<uint32_t[]> barrier_word;  // cooperative launches
  uint64_t blocks = 0;
  uint32_t unit = 1;  // blocks that start together: those of a cluster
  uint64_t next = 0;  // first block not handed out; guarded by the distributor
  // Blocks not finished, and commands of its kernels' streams; whoever brings it to 0 completes the
  // command.
  std::atomic<uint64_t> remaining{0};
  int priority = 0;
  SmSet sms;                 // that may run it; null: all
  uint32_t depth = 0;        // launches above it that came from kernels
  bool holds_place = false;  // among the launches that wait; until the first block is handed out
  // What its kernels launched for its end, and what follows that: guarded by GridManagement.
  std::vector<std::unique_ptr<Command>> tails, after_tails;
  std::unique_ptr<LaunchProfile> profile;  // nullptr: none wanted
  std::atomic<uint64_t> began_ns{0};       // when its first block was handed out; 0 = not yet
  Channel* channel = nullptr;
  WorkDistributor* distributor = nullptr;  // of the device that runs it
  GridManagement* management = nullptr;
  Command* command = nullptr;

  Dim3 block_index(uint64_t linear) const {
    Dim3 index;
    index.x = static_cast<uint32_t>(linear % params.grid.x);
    index.y = static_cast<uint32_t>(linear / params.grid.x % params.grid.y);
    index.z = static_cast<uint32_t>(linear / params.grid.x / params.grid.y);
    return index;
  }
  // Of a grid with clusters, whose blocks are numbered cluster by cluster.
  Dim3 clustered_index(uint64_t linear) const {
    const Dim3 &size = params.cluster, &grid = params.grid;
    const auto rank = static_cast<uint32_t>(linear % unit);
    const uint64_t cluster = linear / unit;
    const uint32_t across = grid.x / size.x, down = grid.y / size.y;
    Dim3 index;
    index.x = static_cast<uint32_t>(cluster % across) * size.x + rank % size.x;
    index.y = static_cast<uint32_t>(cluster / across % down) * size.y + rank / size.x % size.y;
    index.z = static_cast<uint32_t>(cluster / across / down) * size.z + rank / size.x / size.y;
    return index;
  }
  bool may_run_on(uint32_t sm) const { return sms == nullptr || sms->has(sm); }
  bool stopped() const { return channel->stop.load(std::memory_order_relaxed) != 0; }

 private:
  std::once_flag family_made_;
  std::unique_ptr<GridFamily> family_;
};

}  // namespace vgpu::softgpu
