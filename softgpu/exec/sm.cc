// The worker loop: fetch blocks, run one, take the resident ones in turn.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/sm.h"

#include <sched.h>

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
constexpr size_t kSpareRunnersMax = 4;

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
    if (!residents_.empty()) {
      Resident resident = std::move(residents_.front());
      residents_.pop_front();
      step(std::move(resident));
    }
    rest(seen);
  }
}

// True when there is a block to start and room for it. Prefers what is more urgent than what it
// holds.
bool Sm::fetch() {
  if (residents_.size() >= kResidentBlocksMax) return false;
  Chunk chunk;
  if (chunks_.empty()) {
    if (!distributor_->claim(&chunk)) return false;
    chunks_.push_back(chunk);
    return true;
  }
  if (distributor_->top_priority() < chunks_.back().grid->priority &&
      distributor_->claim(&chunk, chunks_.back().grid->priority)) {
    chunks_.push_back(chunk);
  }
  return true;
}

void Sm::start_block() {
  Chunk& chunk = chunks_.back();
  Grid* const grid = chunk.grid;
  if (grid->stopped()) {
    const uint64_t left = chunk.end - chunk.next;
    chunks_.pop_back();
    finish_blocks(grid, left);
    return;
  }
  const uint64_t linear = chunk.next++;
  if (chunk.empty()) chunks_.pop_back();
  Resident resident{nullptr, grid};
  if (spare_.empty()) {
    resident.runner = std::make_unique<BlockRunner>();
  } else {
    resident.runner = std::move(spare_.back());
    spare_.pop_back();
  }
  if (!resident.runner->begin(*grid->kernel, grid->params, grid->block_index(linear), id_)) {
    management_->fail(grid->channel, CUDA_ERROR_OUT_OF_MEMORY);
    finish_blocks(grid, 1);
    return;
  }
  step(std::move(resident));
}

void Sm::step(Resident resident) {
  const uint64_t began = resident.grid->profile != nullptr ? monotonic_ns() : 0;
  const BlockStep step = resident.runner->run();
  if (began != 0) {
    const Dim3& block = resident.grid->params.block;
    const uint64_t warps = (uint64_t{block.x} * block.y * block.z + kWarpLanes - 1) / kWarpLanes;
    resident.grid->profile->counters.warp_ns.fetch_add((monotonic_ns() - began) * warps,
                                                       std::memory_order_relaxed);
  }
  if (step == BlockStep::kYielded) {
    residents_.push_back(std::move(resident));
    ++fruitless_;
    return;
  }
  fruitless_ = 0;
  if (step == BlockStep::kFault) report_fault(*resident.grid, resident.runner->fault());
  Grid* const grid = resident.grid;
  if (spare_.size() < kSpareRunnersMax) spare_.push_back(std::move(resident.runner));
  finish_blocks(grid, 1);
}

void Sm::finish_blocks(Grid* grid, uint64_t blocks) {
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
}

void Sm::drop_token() {
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
