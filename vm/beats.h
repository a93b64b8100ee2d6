// Heartbeats through shared memory: whether the other side's program still runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_VM_BEATS_H_
#define VGPU_VM_BEATS_H_

#include <cstdint>

#include "protocol/mailbox/layout.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::vm {

// Counts the peer's missed beats by our own: a side that was stopped for a while, and the peer with
// it, does not find the other dead when it goes on.
class Beats {
 public:
  // To be called often. Beats for `own` when it is time, and looks at `peer` then. False: the peer
  // has missed kBeatsMissedMax in a row.
  bool go_on(protocol::LifeLine* own, const protocol::LifeLine& peer) {
    const int64_t now = protocol::now_ns();
    if (now < next_ns_) return missed_ < protocol::kBeatsMissedMax;
    next_ns_ = now + protocol::kBeatNs;
    own->beat.store(++count_, std::memory_order_release);  // partner: the peer's load below
    const uint32_t seen = peer.beat.load(std::memory_order_acquire);
    missed_ = seen == last_seen_ ? missed_ + 1 : 0;
    last_seen_ = seen;
    return missed_ < protocol::kBeatsMissedMax;
  }
  void forgive() { missed_ = 0; }

 private:
  int64_t next_ns_ = 0;
  uint32_t count_ = 0;
  uint32_t last_seen_ = 0;
  int missed_ = 0;
};

}  // namespace vgpu::vm

#endif  // VGPU_VM_BEATS_H_
