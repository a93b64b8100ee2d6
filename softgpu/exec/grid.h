// One launched kernel on its way through the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "softgpu/exec/block.h"
#include "softgpu/exec/channel.h"
#include "softgpu/exec/launch_profile.h"

namespace vgpu::softgpu {

struct Command;
class WorkDistributor;

// What cooperative groups keep at the workspace: its size, then the barrier word.
inline constexpr size_t kBarrierWords = 16;

struct Grid {
  const CompiledKernel* kernel = nullptr;
  std::shared_ptr<const void> keep_alive;  // the module that owns the code
  GridParams params;
  std::vector<uint8_t> param_bytes;          // params.params points here
  std::unique_ptr<uint32_t[]> barrier_word;  // cooperative launches
  uint64_t blocks = 0;
  uint64_t next = 0;  // first block not handed out; guarded by the distributor
  std::atomic<uint64_t> remaining{
      0};  // blocks not finished; whoever brings it to 0 completes the command
  int priority = 0;
  std::unique_ptr<LaunchProfile> profile;  // nullptr: none wanted
  std::atomic<uint64_t> began_ns{0};       // when its first block was handed out; 0 = not yet
  Channel* channel = nullptr;
  WorkDistributor* distributor = nullptr;  // of the device that runs it
  Command* command = nullptr;

  Dim3 block_index(uint64_t linear) const {
    Dim3 index;
    index.x = static_cast<uint32_t>(linear % params.grid.x);
    index.y = static_cast<uint32_t>(linear / params.grid.x % params.grid.y);
    index.z = static_cast<uint32_t>(linear / params.grid.x / params.grid.y);
    return index;
  }
  bool stopped() const { return channel->stop.load(std::memory_order_relaxed) != 0; }
};

}  // namespace vgpu::softgpu
