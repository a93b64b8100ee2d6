// The list of active grids.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/work_distributor.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "softgpu/exec/device_segment.h"

namespace vgpu::softgpu {
namespace {
constexpr int kLingerSpins = 1000;
}  // namespace

WorkDistributor::WorkDistributor(uint32_t sms, const DeviceSegment* segment)
    : sms_(sms), segment_(segment), states_(std::make_unique<SmState[]>(sms)) {}

void WorkDistributor::publish_top() {
  top_priority_.store(active_.empty() ? INT_MAX : active_.front()->priority,
                      std::memory_order_relaxed);
}

void WorkDistributor::add(Grid* grid) {
  const uint64_t blocks = grid->blocks;  // the grid may be gone once the mutex is free
  const int priority = grid->priority;
  const bool placed = grid->sms != nullptr;
  bool contended;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto place = std::find_if(active_.begin(), active_.end(), [grid](const Grid* other) {
      return other->priority > grid->priority ||
             (other->priority == grid->priority && other->depth < grid->depth);
    });
    active_.insert(place, grid);
    contended = active_.size() > 1;
    publish_top();
  }
  word_.fetch_add(1, std::memory_order_seq_cst);
  const bool all_busy = sleepers_.load(std::memory_order_seq_cst) == 0;
  if (contended || all_busy || placed) timer_.start();
  if (all_busy) return interrupt_below(priority);
  // Those that sleep may not be those that it is for, and its own may be busy.
  if (placed) [[unlikely]] {
    futex_wake_all(&word_);
    return interrupt_below(priority);
  }
  futex_wake(&word_,
             blocks <= kSmallGridBlocks ? 1 : static_cast<int>(std::min<uint64_t>(blocks, sms_)));
}

bool WorkDistributor::claim(Chunk* chunk, uint32_t sm, int below) {
  if (top_priority_.load(std::memory_order_relaxed) >= below && below != INT_MAX) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto first = std::find_if(active_.begin(), active_.end(),
                                  [sm](const Grid* grid) { return grid->may_run_on(sm); });
  if (first == active_.end() || (*first)->priority >= below) return false;
  return take(first, chunk);
}

bool WorkDistributor::claim_other(Chunk* chunk, uint32_t sm,
                                  const std::vector<const Grid*>& except) {
  if (top_priority_.load(std::memory_order_relaxed) == INT_MAX) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto other = std::find_if(active_.begin(), active_.end(), [sm, &except](const Grid* grid) {
    return grid->may_run_on(sm) && std::find(except.begin(), except.end(), grid) == except.end();
  });
  return other != active_.end() && take(other, chunk);
}

// Under mutex_.
bool WorkDistributor::take(std::vector<Grid*>::iterator place, Chunk* chunk) {
  Grid* const grid = *place;
  const uint64_t left = grid->blocks - grid->next;
  const uint32_t sms = grid->sms == nullptr ? sms_ : grid->sms->count();
  uint64_t take = std::clamp<uint64_t>(left / (8ull * sms), 1, kChunkBlocksMax);
  if (grid->blocks <= kSmallGridBlocks || grid->stopped()) take = left;
  // Blocks that wait for each other are started, not kept in hand.
  if (grid->params.cooperative_workspace != 0 && !grid->stopped()) take = 1;
  take = (take + grid->unit - 1) / grid->unit * grid->unit;  // all blocks are whole clusters
  if (grid->next == 0) {
    grid->began_ns.store(monotonic_ns(), std::memory_order_relaxed);
    if (std::exchange(grid->holds_place, false))
      grid->channel->pending_launches.fetch_sub(1, std::memory_order_relaxed);
  }
  chunk->grid = grid;
  chunk->next = grid->next;
  chunk->end = grid->next + take;
  grid->next += take;
  if (grid->next == grid->blocks) active_.erase(place);
  publish_top();
  return true;
}

void WorkDistributor::interrupt_all() {
  for (uint32_t id = 0; id < sms_; ++id) states_[id].attention.store(1, std::memory_order_seq_cst);
}

// What is more urgent does not wait for the end of a turn.
void WorkDistributor::interrupt_below(int priority) {
  for (uint32_t id = 0; id < sms_; ++id) {
    SmState& sm = states_[id];
    if (sm.running.load(std::memory_order_relaxed) == nullptr) continue;
    if (sm.priority.load(std::memory_order_relaxed) > priority)
      sm.attention.store(1, std::memory_order_seq_cst);
  }
}

// Interrupts what runs where another grid, another block or another process waits.
bool WorkDistributor::end_turns() {
  const bool shared = segment_ != nullptr && segment_->shared();
  const bool wanted = segment_ != nullptr && segment_->tokens_wanted();
  std::lock_guard<std::mutex> lock(mutex_);
  bool more = !active_.empty();
  for (uint32_t id = 0; id < sms_; ++id) {
    SmState& sm = states_[id];
    const Grid* const running = sm.running.load(std::memory_order_relaxed);
    const bool own_wait = sm.interrupted.load(std::memory_order_relaxed) != 0;
    more |= own_wait || (shared && running != nullptr);
    const uint32_t turn = sm.turn.load(std::memory_order_relaxed);
    const bool long_enough = std::exchange(sm.turn_seen, turn) == turn;
    if (running == nullptr || !long_enough) continue;
    const bool others_wait = std::any_of(
        active_.begin(), active_.end(),
        [running, id](const Grid* grid) { return grid != running && grid->may_run_on(id); });
    if (own_wait || others_wait || wanted) sm.attention.store(1, std::memory_order_seq_cst);
  }
  return more;
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
