// Both ends of a channel over one mapping: what the shim and the worker hold.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_CHANNEL_H_
#define VGPU_PROTOCOL_SESSION_CHANNEL_H_

#include <memory>
#include <mutex>

#include "base/spin_mutex.h"
#include "protocol/ring/consumer.h"
#include "protocol/ring/down_space.h"
#include "protocol/ring/host_calls.h"
#include "protocol/ring/layout.h"
#include "protocol/ring/producer.h"
#include "protocol/ring/reply.h"
#include "protocol/ring/semaphore.h"
#include "protocol/ring/staging.h"
#include "protocol/transport/transport.h"

namespace vgpu::protocol {

// The guest's end. Owns the transport. lock() guards the producer and the up-slab's bookkeeping,
// from reserve to commit; everything else is thread-safe by itself.
class GuestChannel {
 public:
  // Checks the memory's identity. Fails when it is not the channel that the handshake described.
  static Result<std::unique_ptr<GuestChannel>> open(std::unique_ptr<Transport> transport,
                                                    SpinMode spin = SpinMode::kAdaptive);

  SpinMutex& lock() { return lock_; }
  Producer& producer() { return producer_; }             // under lock()
  ReplyPool& replies() { return replies_; }              // thread-safe
  SemaphoreReader& semaphores() { return semaphores_; }  // thread-safe
  HostCallReader& host_calls() { return host_calls_; }   // one thread
  std::span<std::byte> up_slab() const { return view_.up_slab(); }
  std::span<std::byte> down_slab() const { return view_.down_slab(); }
  Transport& transport() { return *transport_; }
  // What must be told what is to be moved; null where both sides see the same memory.
  Mover* mover() const { return mover_; }

  // Room in the up-slab: retires what is past, waits for more. Without lock(), so that others go on
  // while the caller waits and fills the piece. Then, under lock(), bind_up says which record reads
  // it; 0: none will. Not ok(): the channel is dead or bytes is more than the slab.
  // With `stuck`: not ok() and true there when all space was held by one record for longer than
  // work that moves on takes, and the caller should go another way.
  Staging::Piece allocate_up(uint64_t bytes, bool* stuck = nullptr);
  void bind_up(const Staging::Piece& piece, uint64_t sequence);

  // Room in the down-slab. A thread that holds none may wait for it (`wait`); one that holds some
  // asks without waiting, or two such threads could wait for each other, and gets no more than
  // leaves as much for others. Not ok(): no room, dead, the session has failed, or bytes is more
  // than the slab. Thread-safe.
  Staging::Piece allocate_down(uint64_t bytes, bool wait);
  // After the reply, when the bytes are copied out. Thread-safe.
  void release_down(const Staging::Piece& piece);

  // Makes every wait of every thread return within microseconds, now and for good. Called by the
  // watcher of the liveness descriptor.
  void mark_dead();
  bool dead() const { return producer_.dead(); }
  // Whether calls may go on: alive, and the worker has not failed the session.
  bool usable() const { return !dead() && semaphores_.state() != SessionState::kFailed; }

 private:
  GuestChannel(std::unique_ptr<Transport> transport, const ChannelView& view, SpinMode spin);

  std::unique_ptr<Transport> transport_;
  Mover* const mover_;
  ChannelView view_;
  SpinMutex lock_;
  Producer producer_;
  Staging up_;            // under lock_
  uint64_t stuck_ = 0;    // under lock_: the record that somebody has waited for in vain
  std::mutex down_lock_;  // guards down_; may be taken under lock_, not the other way
  DownSpace down_;
  ReplyPool replies_;
  SemaphoreReader semaphores_;
  HostCallReader host_calls_;
};

// The worker's end. Owns the transport.
class WorkerChannel {
 public:
  // The memory is fresh and zeroed; its identity is written here.
  static Result<std::unique_ptr<WorkerChannel>> create(std::unique_ptr<Transport> transport,
                                                       SpinMode spin = SpinMode::kAdaptive);

  Consumer& consumer() { return consumer_; }             // one thread
  ReplyWriter& replies() { return replies_; }            // thread-safe for different slots
  SemaphoreWriter& semaphores() { return semaphores_; }  // thread-safe
  HostCallWriter& host_calls() { return host_calls_; }   // see there
  std::span<std::byte> up_slab() const { return view_.up_slab(); }
  std::span<std::byte> down_slab() const { return view_.down_slab(); }
  Transport& transport() { return *transport_; }

  // Wakes the consumer thread for good: the guest is gone, or the session ends.
  void mark_dead() { consumer_.mark_dead(); }

 private:
  WorkerChannel(std::unique_ptr<Transport> transport, const ChannelView& view, SpinMode spin);

  std::unique_ptr<Transport> transport_;
  ChannelView view_;
  Consumer consumer_;
  ReplyWriter replies_;
  SemaphoreWriter semaphores_;
  HostCallWriter host_calls_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_CHANNEL_H_
