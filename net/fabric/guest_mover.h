// The guest's half of a mirrored channel: sends what it publishes, applies what the gate reports.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_GUEST_MOVER_H_
#define VGPU_NET_FABRIC_GUEST_MOVER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <span>

#include "base/status.h"
#include "net/fabric/credits.h"
#include "net/fabric/link.h"
#include "net/fabric/messages.h"
#include "protocol/ring/layout.h"
#include "protocol/ring/reply.h"
#include "protocol/ring/semaphore.h"

namespace vgpu::net {

// Plays the worker in the guest's own memory. expect() is called under the channel's lock,
// pending() from anywhere; everything else by whoever drives, one thread at a time.
//
// It outlives connections. What was sent is kept until the gate is known to have it: the ring up to
// its head, the up-slab until it is retired, expectations in their queue.
class GuestMover final : private LinkSink {
 public:
  // `view` is the guest's mirror.
  explicit GuestMover(const protocol::ChannelView& view);
  GuestMover(const GuestMover&) = delete;
  GuestMover& operator=(const GuestMover&) = delete;

  // Goes on over a link that is connected to the gate, which says how far it has come: what it has
  // not is sent again, in order. Refuses positions that cannot be.
  Status connect(Link* link, const Positions& theirs);
  // The link is no more. What it has brought is in positions().
  void disconnect();
  Positions positions() const { return {0, 0, 0, head_, posted_, answers_}; }

  void expect(uint32_t slot, uint64_t offset, uint64_t bytes);

  // Sends what was published since, as far as the link takes it. Whether anything went.
  bool flush();
  // Looks once at what has come. Whether anything had; gone() afterwards.
  bool poll();
  // Brings `bytes` at `offset` of the up-slab to the worker's. False: the link is full, or there is
  // none: poll() and go on with the same arguments; *done is what has gone so far.
  bool stage(uint64_t offset, uint64_t bytes, uint64_t* done);

  // Something waits to be sent.
  bool pending() const;
  // As of the last flush() it waits for the peer, so that something will come before it can go.
  bool blocked() const { return blocked_; }
  // There is no connection, or it is over; error() says why when it was the gate's fault.
  bool gone() const { return gone_; }
  const Status& error() const { return error_; }

 private:
  static constexpr uint32_t kQueued = 2 * protocol::kReplySlots;  // a power of two

  bool received(std::span<const std::byte> message) override;
  void written(uint64_t /*token*/) override {}
  bool send_staged();
  bool send_ring(uint64_t tail);
  bool send_update(uint64_t tail, bool inlined);
  bool send_ack();
  bool apply(const Report& report);
  bool fault(const char* what);
  void apply_words(const Report& report);
  bool apply_calls(const Report& report);
  bool answer(const Report::Answer& answer);
  void note(Sent sent) { gone_ = gone_ || sent == Sent::kGone; }

  protocol::ChannelView view_;
  Link* link_ = nullptr;
  Credits credits_;
  protocol::ReplyWriter replies_;
  protocol::SemaphoreWriter semaphores_;
  MessageWriter message_;
  Report report_;
  uint64_t tail_sent_ = 0;  // what the gate was told
  uint64_t ring_sent_ = 0;  // what was written into its ring; >= tail_sent_
  uint64_t head_ = 0;       // as the gate said
  uint64_t finished_sent_ = 0;
  uint64_t posted_ = 0;
  uint64_t answers_ = 0;
  uint64_t expectations_sent_ = 0;
  uint32_t session_state_ = 0;
  std::atomic<bool> blocked_{false};
  bool gone_ = true;
  Status error_;

  // Bytes of the up-slab whose record the gate is not known to have: when it has a tail beyond
  // `told`, they had come before it.
  struct Staged {
    uint64_t offset = 0, bytes = 0;
    uint64_t told = 0;  // tail_sent_ when they went
  };
  std::deque<Staged> staged_;
  size_t staged_again_ = 0;  // of these are still to be sent again

  // Expectations on their way from the threads to whoever drives. Only rise.
  std::array<Expectation, kQueued> queue_{};
  std::atomic<uint32_t> queue_end_{0};    // release under the channel's lock; acquire in flush()
  std::atomic<uint32_t> queue_begin_{0};  // whoever drives
  // What the gate was told of each slot that it has not answered.
  struct Slot {
    bool outstanding = false;
    uint64_t offset = 0, bytes = 0;
  };
  std::array<Slot, protocol::kReplySlots> slots_{};
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_GUEST_MOVER_H_
