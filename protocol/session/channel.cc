// Putting the parts of a channel over its mapping.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/channel.h"

#include <utility>

namespace vgpu::protocol {
namespace {

Status check_memory(const Transport& transport) {
  VGPU_RETURN_IF_ERROR(transport.sizes().check());
  if (transport.memory().size() < transport.sizes().total_bytes()) {
    return Status(StatusCode::kMalformed, "shared memory is smaller than its sizes say");
  }
  return ok_status();
}

}  // namespace

GuestChannel::GuestChannel(std::unique_ptr<Transport> transport, const ChannelView& view,
                           SpinMode spin)
    : transport_(std::move(transport)),
      mover_(transport_->mover()),
      view_(view),
      producer_(view, spin, mover_),
      up_(view.sizes().up_bytes),
      down_(view.sizes().down_bytes),
      replies_(view, spin, mover_),
      semaphores_(view, spin, mover_),
      host_calls_(view, spin, mover_) {}

Result<std::unique_ptr<GuestChannel>> GuestChannel::open(std::unique_ptr<Transport> transport,
                                                         SpinMode spin) {
  VGPU_RETURN_IF_ERROR(check_memory(*transport));
  const ChannelView view(transport->memory().data(), transport->sizes(), transport->bell());
  VGPU_RETURN_IF_ERROR(view.check_identity());
  return std::unique_ptr<GuestChannel>(new GuestChannel(std::move(transport), view, spin));
}

Staging::Piece GuestChannel::allocate_up(uint64_t bytes, bool* stuck) {
  if (bytes == 0 || bytes > up_.bytes_max()) return {};
  const int64_t network_or_not = mover_ != nullptr ? kSlabPatienceNetworkNs : kSlabPatienceNs;
  const int64_t patience_ns = stuck != nullptr ? network_or_not : -1;
  std::unique_lock hold(lock_);
  for (;;) {
    if (dead()) return {};
    up_.retire_through(semaphores_.value(Semaphore::kSlabRetired));
    if (Staging::Piece piece = up_.allocate(bytes); piece.ok()) return piece;
    if (const uint64_t oldest = up_.oldest_sequence(); oldest != 0) {
      producer_.publish();  // the record that frees space must be seen
      if (stuck != nullptr && oldest == stuck_) {
        *stuck = true;
        return {};
      }
      hold.unlock();
      const WaitResult waited = semaphores_.wait(Semaphore::kSlabRetired, oldest, patience_ns);
      if (waited == WaitResult::kDead) return {};
      if (waited == WaitResult::kTimeout) {
        hold.lock();
        stuck_ = oldest;
        continue;
      }
    } else {
      // Another thread fills the oldest piece: nothing retires before it has written its record.
      hold.unlock();
      const auto bound = [&] {
        std::lock_guard again(lock_);
        return up_.empty() || up_.oldest_sequence() != 0;
      };
      if (semaphores_.wait_for_guest(bound) != WaitResult::kReady) return {};
    }
    hold.lock();
  }
}

void GuestChannel::bind_up(const Staging::Piece& piece, uint64_t sequence) {
  if (sequence != 0) {
    up_.bind(piece.ticket, sequence);
  } else {
    up_.release(piece.ticket);
  }
  semaphores_.wake_guest_waiters();
}

Staging::Piece GuestChannel::allocate_down(uint64_t bytes, bool wait) {
  if (bytes == 0 || bytes > down_.bytes_max() || !usable()) return {};
  Staging::Piece piece;
  const auto try_allocate = [&] {  // asked again after it has succeeded
    std::lock_guard<std::mutex> hold(down_lock_);
    if (!piece.ok() && (wait || down_.free_bytes() / 2 >= bytes)) piece = down_.allocate(bytes);
    return piece.ok();
  };
  if (!try_allocate() && wait) (void)semaphores_.wait_for_guest(try_allocate);
  return piece;
}

void GuestChannel::release_down(const Staging::Piece& piece) {
  {
    std::lock_guard<std::mutex> hold(down_lock_);
    down_.release(piece);
  }
  semaphores_.wake_guest_waiters();
}

void GuestChannel::mark_dead() {
  producer_.mark_dead();
  replies_.mark_dead();
  semaphores_.mark_dead();
  host_calls_.mark_dead();
}

WorkerChannel::WorkerChannel(std::unique_ptr<Transport> transport, const ChannelView& view,
                             SpinMode spin)
    : transport_(std::move(transport)),
      view_(view),
      consumer_(view, spin),
      replies_(view),
      semaphores_(view),
      host_calls_(view, spin) {}

Result<std::unique_ptr<WorkerChannel>> WorkerChannel::create(std::unique_ptr<Transport> transport,
                                                             SpinMode spin) {
  VGPU_RETURN_IF_ERROR(check_memory(*transport));
  const ChannelView view(transport->memory().data(), transport->sizes(), transport->bell());
  view.write_identity();
  return std::unique_ptr<WorkerChannel>(new WorkerChannel(std::move(transport), view, spin));
}

}  // namespace vgpu::protocol
