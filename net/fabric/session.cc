// The server's end: one worker, and connections one after the other.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/mapping.h"
#include "net/fabric/bridge.h"
#include "net/fabric/ends.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::net {
namespace {

constexpr int kGuestTimeoutMs = 15'000;

bool is_gone(int fd) {
  pollfd watched{fd, POLLIN | POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) > 0 &&
         (watched.revents & (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)) != 0;
}

// Waits for connections, serves each until it is cut, waits again.
class Session {
 public:
  Session(std::unique_ptr<FabricListener> listener, const Secret& secret, const WorkerEnd& worker,
          const protocol::ChannelView& view, const EndMemory& memory, int end_fd, Keeper* keeper)
      : listener_(std::move(listener)),
        secret_(secret),
        worker_(worker),
        memory_(memory),
        end_fd_(end_fd),
        keeper_(keeper),
        bridge_(view, worker.connection_fd, end_fd, [this] { return asked() || over_; }) {}

  Status run() {
    VGPU_RETURN_IF_ERROR(bridge_.start());
    let_come(kGuestTimeoutMs);
    for (;;) {
      if (is_gone(worker_.connection_fd)) return ok_status();
      if (wanted_ != 0) VGPU_RETURN_IF_ERROR(offer());
      Status now = listener_ != nullptr ? take_connection() : wait_for_guest();
      if (!now.ok() || over_) return now;
    }
  }

 private:
  void let_come(int timeout_ms) {
    deadline_ns_ = protocol::now_ns() + int64_t{timeout_ms} * 1'000'000;
  }
  int left_ms() const {
    const int64_t left = deadline_ns_ - protocol::now_ns();
    return left <= 0 ? 0 : static_cast<int>(left / 1'000'000 + 1);
  }

  // end_fd_ is readable. Whether the guest wants another connection than it has been offered; the
  // session may be over_, too.
  bool asked() {
    const Result<uint32_t> epoch =
        keeper_ != nullptr ? keeper_->wanted()
                           : Result<uint32_t>(Status(StatusCode::kUnavailable, "no longer wanted"));
    if (!epoch.ok()) {
      over_ = epoch.status().code() != StatusCode::kTimedOut;
      return false;
    }
    // The same again: perhaps it has not heard the offer. An older one is an old question.
    const bool again = *epoch == epoch_ && listener_ != nullptr && listener_->waits();
    if (*epoch <= epoch_ && !again) return false;
    wanted_ = *epoch;
    return true;
  }

  // What was before is gone when the guest hears of the next.
  Status offer() {
    if (wanted_ != epoch_) {
      listener_.reset();
      Result<std::unique_ptr<FabricListener>> next = keeper_->listen(&secret_);
      if (!next.ok()) return next.status();
      listener_ = std::move(next).value();
      epoch_ = wanted_;
    }
    wanted_ = 0;
    return keeper_->offer(epoch_, listener_->address(), secret_);
  }

  Status wait_for_guest() {
    pollfd entry{end_fd_, POLLIN, 0};
    if (::poll(&entry, 1, left_ms()) > 0) {
      (void)asked();
    } else if (left_ms() == 0) {
      return Status(StatusCode::kTimedOut, "the guest did not come back in time");
    }
    return ok_status();
  }

  Status take_connection() {
    Result<std::unique_ptr<FabricLink>> link =
        listener_->accept({secret_, epoch_, bridge_.positions()}, memory_, left_ms(), end_fd_);
    if (!link.ok()) {
      if (is_gone(worker_.connection_fd)) return ok_status();
      pollfd entry{end_fd_, POLLIN, 0};
      if (::poll(&entry, 1, 0) > 0) (void)asked();
      // One that failed on its way is followed by another; the guest asks.
      if (!listener_->waits() && keeper_ != nullptr) {
        listener_.reset();
        return ok_status();
      }
      return link.status().code() == StatusCode::kUnavailable && keeper_ != nullptr ? ok_status()
                                                                                    : link.status();
    }
    listener_.reset();
    if ((*link)->window_bytes() != worker_.sizes.down_bytes)
      return Status(StatusCode::kMalformed, "the guest's window is not of the channel's size");
    const Status ended = bridge_.serve(link->get(), (*link)->peer_positions());
    const bool cut = ended.ok() && !over_ && !is_gone(worker_.connection_fd);
    if (!cut || keeper_ == nullptr) {
      (*link)->drain(kFlushNsMax);
      (*link)->shut_down();
      over_ = true;
      return ended;
    }
    VGPU_LOG_INFO("connection %u is cut", epoch_);
    let_come(keeper_->grace_ms());
    return ok_status();
  }

  std::unique_ptr<FabricListener> listener_;
  Secret secret_;
  const WorkerEnd worker_;
  const EndMemory memory_;
  const int end_fd_;
  Keeper* const keeper_;
  uint32_t epoch_ = 1;   // of the connection that is, or may be made
  uint32_t wanted_ = 0;  // by the guest; 0: nothing new
  bool over_ = false;
  int64_t deadline_ns_ = 0;
  Bridge bridge_;
};

}  // namespace

Status serve_session(std::unique_ptr<FabricListener> listener, const Secret& secret,
                     const WorkerEnd& worker, int end_fd, Keeper* keeper) {
  VGPU_RETURN_IF_ERROR(worker.sizes.check());
  VGPU_RETURN_IF_ERROR(protocol::check_sealed_memory(worker.memory_fd, worker.sizes.total_bytes()));
  Result<Mapping> memory = Mapping::map_shared(worker.memory_fd, worker.sizes.total_bytes());
  if (!memory.ok()) return memory.status();
  const protocol::ChannelView view(memory->data(), worker.sizes);
  VGPU_RETURN_IF_ERROR(view.check_identity());
  // All that a guest may write by itself: what it publishes and what it stages.
  const std::span<std::byte> window{view.ring(), worker.sizes.ring_bytes + worker.sizes.up_bytes};
  Session session(std::move(listener), secret, worker, view, {memory->bytes(), window}, end_fd,
                  keeper);
  return session.run();
}

}  // namespace vgpu::net
