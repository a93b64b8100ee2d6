// The worker loop: fetch blocks, run one, take the resident ones in turn.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/sm.h"

#include <sched.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kTokenSliceNs =
    2'000'000;                             // how long an SM keeps its token when others want one
constexpr uint32_t kFruitlessSpins = 256;  // turns without progress before the thread naps
constexpr int64_t kNapNs = 50'000;
constexpr size_t kSpareRunnersMax = 16;
constexpr size_t kClustersKept = 4;  // and as many more as run

}  // namespace

void Sm::loop() {
  for (;;) {
    const uint32_t seen = distributor_->version();
    const bool may_start = fetch();
    if (!may_start && residents_.empty()) {
      drop_token();
      distributor_->linger(seen);
      distributor_->wait(seen, -1);
      continue;
    }
    hold_token();
    if (may_start) start_block();
    if (!residents_.empty() && !(may_start && may_wait(residents_.front()))) {
      Resident resident = std::move(residents_.front());
      residents_.pop_front();
      if (std::exchange(resident.interrupted, false))
        state_->interrupted.fetch_sub(1, std::memory_order_relaxed);
      step(std::move(resident));
    }
    rest(seen);
  }
}

// True when there is a block to start and room for it. Prefers what is more urgent than what it
// holds.
bool Sm::fetch() {
  if (residents_.size() >= kResidentBlocksMax) return false;
  if (state_->interrupted.load(std::memory_order_relaxed) != 0) return fetch_others();
  Chunk chunk;
  if (chunks_.empty()) {
    if (!distributor_->claim(&chunk, id_)) return false;
    chunks_.push_back(chunk);
    return may_start(*chunk.grid);
  }
  if (distributor_->top_priority() < chunks_.back().grid->priority &&
      distributor_->claim(&chunk, id_, chunks_.back().grid->priority)) {
    chunks_.push_back(chunk);
  }
  return may_start(*chunks_.back().grid);
}

// Blocks of a cluster go on as soon as their siblings let them: another cluster begins when none
// is left that could, or for what is more urgent.
bool Sm::may_start(const Grid& grid) const {
  return !grid.params.clustered() || residents_.empty() || fruitless_ > residents_.size() ||
         grid.stopped() || grid.priority < residents_.front().grid->priority;
}

// Blocks that were interrupted made room for other grids, not for more of their own.
bool Sm::fetch_others() {
  std::vector<const Grid*> theirs;
  for (const Resident& resident : residents_) {
    if (resident.interrupted) theirs.push_back(resident.grid);
  }
  Chunk chunk;
  const auto in_hand = std::find_if(chunks_.rbegin(), chunks_.rend(), [&theirs](const Chunk& each) {
    return std::find(theirs.begin(), theirs.end(), each.grid) == theirs.end();
  });
  const int below = in_hand != chunks_.rend() ? in_hand->grid->priority : INT_MAX;
  if (in_hand == chunks_.rend() || distributor_->top_priority() < below) {
    if (distributor_->claim_other(&chunk, id_, theirs)) {
      chunks_.push_back(chunk);
      return true;
    }
  }
  if (in_hand == chunks_.rend()) return false;
  std::rotate(std::prev(in_hand.base()), in_hand.base(), chunks_.end());
  return true;
}

// Whether new blocks come before this one.
bool Sm::may_wait(const Resident& resident) const {
  return resident.interrupted &&
         (resident.grid->priority > started_priority_ || monotonic_ns() < others_until_ns_);
}

void Sm::start_block() {
  Chunk& chunk = chunks_.back();
  Grid* const grid = chunk.grid;
  started_priority_ = grid->priority;
  if (grid->stopped()) {
    const uint64_t left = chunk.end - chunk.next;
    chunks_.pop_back();
    finish_blocks(grid, left);
    return;
  }
  const uint64_t linear = chunk.next;
  chunk.next += grid->unit;
  if (chunk.empty()) chunks_.pop_back();
  if (grid->params.clustered()) [[unlikely]]
    return start_cluster(grid, linear);
  Resident resident{spare_runner(), grid};
  if (!resident.runner->begin(*grid->kernel, grid->params, grid->block_index(linear), id_)) {
    management_->fail(grid->channel, CUDA_ERROR_OUT_OF_MEMORY);
    finish_blocks(grid, 1);
    return;
  }
  step(std::move(resident));
}

// All blocks of the cluster whose first is `first`, so that each finds the others' shared memory
// and none waits for one that does not fit.
void Sm::start_cluster(Grid* grid, uint64_t first) {
  const GridParams& params = grid->params;
  std::vector<Resident> blocks;
  const std::shared_ptr<Cluster> cluster = spare_cluster();
  bool begun = cluster->begin(grid->unit, shared_bytes_of(*grid->kernel, params));
  for (uint32_t rank = 0; rank < grid->unit && begun; ++rank) {
    blocks.push_back({spare_runner(), grid});
    begun = blocks.back().runner->begin(*grid->kernel, params, grid->clustered_index(first + rank),
                                        id_, cluster);
  }
  if (!begun) {
    management_->fail(grid->channel, CUDA_ERROR_OUT_OF_MEMORY);
    finish_blocks(grid, grid->unit);
    return;
  }
  for (Resident& block : blocks) step(std::move(block));
}

std::shared_ptr<Cluster> Sm::spare_cluster() {
  const auto spare = [](const std::shared_ptr<Cluster>& each) { return each.use_count() == 1; };
  if (clusters_.size() > kClustersKept) std::erase_if(clusters_, spare);
  const auto found = std::find_if(clusters_.begin(), clusters_.end(), spare);
  if (found != clusters_.end()) return *found;
  clusters_.push_back(std::make_shared<Cluster>());
  return clusters_.back();
}

std::unique_ptr<BlockRunner> Sm::spare_runner() {
  if (spare_.empty()) return std::make_unique<BlockRunner>(&state_->attention);
  std::unique_ptr<BlockRunner> runner = std::move(spare_.back());
  spare_.pop_back();
  return runner;
}

void Sm::step(Resident resident) {
  if (metered_ != resident.grid) [[unlikely]]
    meter(*resident.grid);
  const uint64_t began = resident.grid->profile != nullptr ? monotonic_ns() : 0;
  state_->priority.store(resident.grid->priority, std::memory_order_relaxed);
  state_->running.store(resident.grid, std::memory_order_relaxed);
  state_->turn.store(++turn_, std::memory_order_relaxed);
  // Partner: see SmState.
  state_->attention.store(0, std::memory_order_seq_cst);
  const BlockStep step = resident.runner->run();
  state_->running.store(nullptr, std::memory_order_relaxed);
  if (began != 0) {
    const Dim3& block = resident.grid->params.block;
    const uint64_t warps = (uint64_t{block.x} * block.y * block.z + kWarpLanes - 1) / kWarpLanes;
    resident.grid->profile->counters.warp_ns.fetch_add((monotonic_ns() - began) * warps,
                                                       std::memory_order_relaxed);
  }
  if (step == BlockStep::kYielded) {
    fruitless_ = resident.runner->advanced() ? 0 : fruitless_ + 1;
    residents_.push_back(std::move(resident));
    return;
  }
  fruitless_ = 0;
  if (step == BlockStep::kInterrupted) {
    others_until_ns_ = monotonic_ns() + kTurnNs;
    resident.interrupted = true;
    state_->interrupted.fetch_add(1, std::memory_order_relaxed);
    residents_.push_back(std::move(resident));
    distributor_->watch_turns();
    return;
  }
  if (step == BlockStep::kFault) report_fault(*resident.grid, resident.runner->fault());
  Grid* const grid = resident.grid;
  if (spare_.size() < kSpareRunnersMax) spare_.push_back(std::move(resident.runner));
  finish_blocks(grid, 1);
}

void Sm::meter(const Grid& grid) {
  stop_meter();
  piece_ = grid.command->piece;
  metered_ = &grid;
  if (piece_ != nullptr) clock_.begin();
}

void Sm::stop_meter() {
  if (piece_ != nullptr) piece_->use(clock_.end() / segment_->sms());
  piece_ = nullptr;
  metered_ = nullptr;
}

void Sm::finish_blocks(Grid* grid, uint64_t blocks) {
  // Before the grid may go, and with it who has used the time.
  if (metered_ == grid && (chunks_.empty() || chunks_.back().grid != grid)) stop_meter();
  // acq_rel: what other SMs wrote for their blocks is seen by whoever finds the command complete.
  if (grid->remaining.fetch_sub(blocks, std::memory_order_acq_rel) == blocks)
    management_->complete(grid->command);
}

void Sm::report_fault(const Grid& grid, const Fault& fault) {
  VGPU_LOG_ERROR("kernel %s: fault %d at address 0x%llx: %s%s", grid.kernel->name.c_str(),
                 static_cast<int>(fault.code), static_cast<unsigned long long>(fault.address),
                 fault.text.c_str(),
                 fault.address == 0 ? "" : (", " + memory_->describe(fault.address)).c_str());
  management_->fail(grid.channel, fault.code);
}

void Sm::hold_token() {
  if (has_token_) return;
  token_ = segment_->acquire_token(id_);
  has_token_ = true;
  token_since_ns_ = monotonic_ns();
  if (segment_->shared()) distributor_->watch_turns();
}

void Sm::drop_token() {
  stop_meter();
  if (!has_token_) return;
  segment_->release_token(token_);
  has_token_ = false;
}

// Between blocks: gives other processes their turn, and the core when all resident blocks wait.
void Sm::rest(uint32_t seen) {
  const bool all_wait = fruitless_ > residents_.size();
  if (segment_->tokens_wanted() && has_token_ &&
      (all_wait || monotonic_ns() - token_since_ns_ > kTokenSliceNs)) {
    drop_token();
    ::sched_yield();
  }
  if (!all_wait) return;
  if (fruitless_ < kFruitlessSpins) {
    ::sched_yield();
    return;
  }
  drop_token();
  distributor_->wait(seen, kNapNs);
}

}  // namespace vgpu::softgpu
