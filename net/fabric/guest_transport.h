// Transport fabric, the guest's side: a mirror of the channel and what keeps it up to date.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_GUEST_TRANSPORT_H_
#define VGPU_NET_FABRIC_GUEST_TRANSPORT_H_

#include <pthread.h>

#include <atomic>
#include <functional>
#include <memory>

#include "base/mapping.h"
#include "base/spin_mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "net/fabric/guest_mover.h"
#include "net/fabric/link.h"
#include "protocol/transport/transport.h"

namespace vgpu::net {

// A connection that was made, how far the gate has come, and what the child of a fork closes of it
// (-1: nothing).
struct Connected {
  std::unique_ptr<Link> link;
  Positions theirs;
  int socket_fd = -1;
};

// Makes the next connection, once nothing is left of the one before, for a guest that has come so
// far. Blocks, until *stop at the latest. Not ok(): there is none, the session is over.
using Reconnect =
    std::function<Result<Connected>(const Positions& mine, const std::atomic<bool>& stop)>;

// Whoever drives holds drive_ and moves what there is: a thread that waits, for itself, or else the
// progress thread, which sleeps on the completion queue's descriptor when nothing moves. While
// threads help themselves it keeps away from that descriptor, so that no answer wakes two threads.
// When the connection is cut, the progress thread makes another; whoever waits goes on waiting.
class GuestTransport final : public protocol::Transport, public protocol::Mover {
 public:
  // `reconnect` may be null: then a cut is the end.
  static Result<std::unique_ptr<GuestTransport>> start(Mapping memory,
                                                       const protocol::ChannelSizes& sizes,
                                                       Connected first, Reconnect reconnect);
  ~GuestTransport() override;

  std::span<std::byte> memory() const override { return memory_.bytes(); }
  const protocol::ChannelSizes& sizes() const override { return sizes_; }
  int liveness_fd() const override { return liveness_.get(); }
  bool same_address_space() const override { return false; }
  Status send_descriptor(int fd, uint64_t tag) override;
  Result<std::pair<UniqueFd, uint64_t>> receive_descriptor(int timeout_ms) override;
  protocol::Mover* mover() override { return this; }

  void published() override;
  void expect(uint32_t slot, uint64_t offset, uint64_t bytes) override;
  void stage(uint64_t offset, std::span<const std::byte> from) override;
  bool help(bool (*ready)(void*), void* argument) override;
  void slept() override;

 private:
  GuestTransport(Mapping memory, const protocol::ChannelSizes& sizes, Reconnect reconnect);

  static void* run(void* argument);
  static void stop_at_exit();
  void stop();
  void progress();
  Status take(Connected connected);
  bool recover();
  bool drive();
  void rest(bool park);
  void wake();
  void ring();
  void close_liveness();

  Mapping memory_;
  protocol::ChannelSizes sizes_;
  protocol::ChannelView view_;
  std::unique_ptr<Link> link_;
  GuestMover mover_;
  SpinMutex drive_;  // guards link_ and mover_ but for what they say is free
  Reconnect reconnect_;
  UniqueFd liveness_;  // hangs up when the session is over
  UniqueFd alive_;     // its other end
  UniqueFd bell_;      // eventfd that wakes the progress thread
  pthread_t thread_{};
  bool started_ = false;
  bool ended_ = false;  // the control plane has said so; the progress thread's
  std::atomic<bool> stop_{false};
  std::atomic<bool> over_{false};  // there is no connection and will be none
  // The progress thread sleeps until the bell rings; parked: for kLeaseNs at most.
  enum Sleep : uint32_t { kAwake, kAsleep, kParked };
  std::atomic<uint32_t> sleeping_{kAwake};
  std::atomic<bool> expecting_{false};  // what is published next has a thread that waits for it
  std::atomic<uint32_t> helpers_{0};    // threads that drive for themselves
  std::atomic<uint32_t> sleepers_{0};   // threads that sleep until something comes
  std::atomic<uint64_t> helped_{0};     // counts helps, so that the progress thread sees them
};

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_GUEST_TRANSPORT_H_
