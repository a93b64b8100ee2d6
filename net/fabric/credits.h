// Counting messages, so that a peer never has more of them than it has posted receives for.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_CREDITS_H_
#define VGPU_NET_FABRIC_CREDITS_H_

#include <cstdint>

#include "net/fabric/fabric_limits.h"

namespace vgpu::net {

// Not thread-safe.
class Credits {
 public:
  bool may_send() const { return sent_ - acked_ < kMessagesInFlightMax; }
  // An acknowledgement of its own is due, and may go.
  bool ack_due() const {
    return received_ - told_ >= kMessagesPerAck && sent_ - acked_ < kAcksInFlightMax;
  }
  // For the header of a message that goes now.
  uint64_t received() const { return received_; }
  void sent() {
    ++sent_;
    told_ = received_;
  }
  // A message has come. False: the peer acknowledges what was never sent, or takes words back.
  bool on_received(uint64_t acked) {
    ++received_;
    if (acked < acked_ || acked > sent_) return false;
    acked_ = acked;
    return true;
  }

 private:
  uint64_t sent_ = 0, acked_ = 0;     // acked_: of ours, as the peer says
  uint64_t received_ = 0, told_ = 0;  // told_: of the peer's, as it was told
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_CREDITS_H_
