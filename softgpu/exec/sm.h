// A streaming multiprocessor: one worker thread that runs blocks, several of them resident when
// they wait. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "softgpu/exec/block.h"
#include "softgpu/exec/cluster.h"
#include "softgpu/exec/device_segment.h"
#include "softgpu/exec/grid_management.h"
#include "softgpu/exec/memory_space.h"
#include "softgpu/exec/work_distributor.h"

namespace vgpu::softgpu {

// Started blocks that one SM keeps while they spin or wait for each other. More than any occupancy
// we report, so that the blocks of a cooperative grid always fit. A cluster that begins below that
// begins as a whole.
inline constexpr size_t kResidentBlocksMax = 64;

// loop() never returns; everything else happens on its thread.
class Sm {
 public:
  Sm(uint32_t id, WorkDistributor* distributor, GridManagement* management, DeviceSegment* segment,
     const MemorySpace* memory)
      : id_(id),
        distributor_(distributor),
        management_(management),
        segment_(segment),
        memory_(memory),
        state_(&distributor->sm(id)) {}
  void loop();

 private:
  struct Resident {
    std::unique_ptr<BlockRunner> runner;
    Grid* grid;
    bool interrupted = false;  // its turn was ended before it had to wait
  };

  bool fetch();
  bool fetch_others();
  bool may_wait(const Resident& resident) const;
  bool may_start(const Grid& grid) const;
  void start_block();
  void start_cluster(Grid* grid, uint64_t first);
  std::shared_ptr<Cluster> spare_cluster();
  std::unique_ptr<BlockRunner> spare_runner();
  void step(Resident resident);
  void finish_blocks(Grid* grid, uint64_t blocks);
  void report_fault(const Grid& grid, const Fault& fault);
  void hold_token();
  void drop_token();
  void rest(uint32_t seen);
  void meter(const Grid& grid);
  void stop_meter();

  const uint32_t id_;
  WorkDistributor* const distributor_;
  GridManagement* const management_;
  DeviceSegment* const segment_;
  const MemorySpace* const memory_;
  SmState* const state_;
  std::vector<Chunk> chunks_;       // the last is the most urgent
  std::deque<Resident> residents_;  // in turn
  std::vector<std::unique_ptr<BlockRunner>> spare_;
  std::vector<std::shared_ptr<Cluster>> clusters_;  // those that nobody else holds are spare
  uint32_t turn_ = 0;                               // blocks that were run or run on so far
  uint32_t fruitless_ = 0;        // steps in a row after which every block still waited
  int started_priority_ = 0;      // of the block that was started last
  uint64_t others_until_ns_ = 0;  // so long new blocks come before one that was interrupted
  bool has_token_ = false;
  uint32_t token_ = 0;
  uint64_t token_since_ns_ = 0;
  // What the time since the clock began goes to: the piece of a grid, all of whose blocks in hand
  // are counted at once. Null: nobody meters it.
  const Grid* metered_ = nullptr;
  PieceRef piece_;
  WorkClock clock_;
};

}  // namespace vgpu::softgpu
