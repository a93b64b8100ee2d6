// A worker's side of the agreement on turns: its slots, the board of the vgpud that is there now,
// and the bell. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_TURN_LINK_H_
#define VGPU_SERVER_TURN_LINK_H_

#include <atomic>
#include <mutex>
#include <vector>

#include "base/mapping.h"
#include "base/unique_fd.h"
#include "server/turn_board.h"

namespace vgpu::server {

// Without vgpud a worker goes on as it was told last: without turns, but never beyond its cap, for
// which it keeps the account itself. Thread-safe. Lives as long as the process.
class TurnLink {
 public:
  // `slots`: [kDevicesMax][kEngines] in the worker's page.
  explicit TurnLink(TurnSlot (*slots)[scheduler::kEngines]);

  // vgpud's board and bell; from now on they count.
  Status connect(UniqueFd board, UniqueFd bell);
  // vgpud is gone.
  void disconnect();

  TurnSlot* slot(uint32_t device, uint32_t engine) const { return &slots_[device][engine]; }
  // acquire: partner is connect().
  const TurnBoard& board() const { return *board_.load(std::memory_order_acquire); }
  const TurnGrant& grant(uint32_t device, uint32_t engine) const {
    return board().grants[device][engine];
  }
  // As vgpud has said it last, or as it was at the beginning.
  scheduler::Share share(const scheduler::Share& first) const;
  // Whether the worker keeps the account of its cap itself.
  bool alone() const { return alone_.load(std::memory_order_relaxed); }
  // Tells vgpud that something has changed. One system call.
  void ring() const;

 private:
  void set_own(const scheduler::Share& share);
  void wake_all();

  TurnSlot (*const slots_)[scheduler::kEngines];
  TurnBoard own_{};  // counts while there is none of vgpud's
  std::atomic<const TurnBoard*> board_{&own_};
  std::atomic<int> bell_{-1};
  std::atomic<bool> alone_{true};
  std::mutex mutex_;
  // Every board and bell that there was: threads may be in them.
  std::vector<Mapping> boards_;
  std::vector<UniqueFd> bells_;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_TURN_LINK_H_
