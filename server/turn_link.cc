// Changing boards while threads look at them.
// SPDX-License-Identifier: Apache-2.0
#include "server/turn_link.h"

#include <unistd.h>

#include "base/futex.h"
#include "protocol/transport/transport.h"
#include "scheduler/turns.h"

namespace vgpu::server {
namespace {

scheduler::Share shown(const TurnBoard& board) {
  scheduler::Share share;
  share.weight = board.weight.load(std::memory_order_relaxed);
  share.priority =
      static_cast<scheduler::PriorityClass>(board.priority.load(std::memory_order_relaxed));
  share.cap_permille = board.cap_permille.load(std::memory_order_relaxed);
  return share;
}

}  // namespace

TurnLink::TurnLink(TurnSlot (*slots)[scheduler::kEngines]) : slots_(slots) {
  set_own({.weight = 0});  // nobody has said it yet
}

Status TurnLink::connect(UniqueFd board, UniqueFd bell) {
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(board.get(), sizeof(TurnBoard)));
  Result<Mapping> mapping = Mapping::map_shared_read_only(board.get(), kTurnBoardBytes);
  if (!mapping.ok()) return mapping.status();
  {
    std::lock_guard lock(mutex_);
    boards_.push_back(std::move(mapping).value());
    bells_.push_back(std::move(bell));
    bell_.store(bells_.back().get(), std::memory_order_relaxed);
    alone_.store(false, std::memory_order_relaxed);
    // release: partner is board().
    board_.store(reinterpret_cast<const TurnBoard*>(boards_.back().data()),
                 std::memory_order_release);
  }
  wake_all();
  return ok_status();
}

void TurnLink::disconnect() {
  {
    std::lock_guard lock(mutex_);
    own_.mode.store(board().mode.load(std::memory_order_relaxed), std::memory_order_relaxed);
    set_own(shown(board()));
    bell_.store(-1, std::memory_order_relaxed);
    alone_.store(true, std::memory_order_relaxed);
    board_.store(&own_, std::memory_order_release);
  }
  wake_all();
}

scheduler::Share TurnLink::share(const scheduler::Share& first) const {
  return board().weight.load(std::memory_order_relaxed) == 0 ? first : shown(board());
}

void TurnLink::set_own(const scheduler::Share& share) {
  const bool capped = share.cap_permille < scheduler::kPermille;
  own_.weight.store(share.weight, std::memory_order_relaxed);
  own_.priority.store(static_cast<uint32_t>(share.priority), std::memory_order_relaxed);
  own_.cap_permille.store(share.cap_permille, std::memory_order_relaxed);
  for (auto& device : own_.grants) {
    for (TurnGrant& grant : device) {
      grant.allowance.store(capped ? 0 : scheduler::kOpen, std::memory_order_relaxed);
      grant.turn_end.store(scheduler::kOpen, std::memory_order_relaxed);
    }
  }
}

void TurnLink::ring() const {
  const int bell = bell_.load(std::memory_order_relaxed);
  const uint64_t one = 1;
  if (bell >= 0) (void)!write(bell, &one, sizeof(one));
}

void TurnLink::wake_all() {
  for (uint32_t device = 0; device < protocol::kDevicesMax; ++device) {
    for (uint32_t engine = 0; engine < scheduler::kEngines; ++engine) {
      slots_[device][engine].word.fetch_add(1, std::memory_order_seq_cst);
      futex_wake_all(&slots_[device][engine].word);
    }
  }
}

}  // namespace vgpu::server
