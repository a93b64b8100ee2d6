// The list of active grids.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/work_distributor.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"

namespace vgpu::softgpu {
namespace {
constexpr int kLingerSpins = 1000;
}  // namespace

void WorkDistributor::publish_top() {
  top_priority_.store(active_.empty() ? INT_MAX : active_.front()->priority,
                      std::memory_order_relaxed);
}

void WorkDistributor::add(Grid* grid) {
  const uint64_t blocks = grid->blocks;  // the grid may be gone once the mutex is free
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto place = std::find_if(active_.begin(), active_.end(), [grid](const Grid* other) {
      return other->priority > grid->priority ||
             (other->priority == grid->priority && other->depth < grid->depth);
    });
    active_.insert(place, grid);
    publish_top();
  }
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
  futex_wake(&word_,
             blocks <= kSmallGridBlocks ? 1 : static_cast<int>(std::min<uint64_t>(blocks, sms_)));
}

bool WorkDistributor::claim(Chunk* chunk, int below) {
  if (top_priority_.load(std::memory_order_relaxed) >= below && below != INT_MAX) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (active_.empty() || active_.front()->priority >= below) return false;
  Grid* const grid = active_.front();
  const uint64_t left = grid->blocks - grid->next;
  uint64_t take = std::clamp<uint64_t>(left / (8ull * sms_), 1, kChunkBlocksMax);
  if (grid->blocks <= kSmallGridBlocks || grid->stopped()) take = left;
  // Blocks that wait for each other are started, not kept in hand.
  if (grid->params.cooperative_workspace != 0 && !grid->stopped()) take = 1;
  if (grid->next == 0) {
    grid->began_ns.store(monotonic_ns(), std::memory_order_relaxed);
    if (std::exchange(grid->holds_place, false))
      grid->channel->pending_launches.fetch_sub(1, std::memory_order_relaxed);
  }
  chunk->grid = grid;
  chunk->next = grid->next;
  chunk->end = grid->next + take;
  grid->next += take;
  if (grid->next == grid->blocks) active_.erase(active_.begin());
  publish_top();
  return true;
}

void WorkDistributor::wait(uint32_t seen, int64_t timeout_ns) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (word_.load(std::memory_order_seq_cst) == seen) futex_wait(&word_, seen, timeout_ns);
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void WorkDistributor::linger(uint32_t seen) const {
  for (int spin = 0; spin < kLingerSpins && version() == seen; ++spin) cpu_relax();
}

}  // namespace vgpu::softgpu
