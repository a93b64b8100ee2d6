// The guest's mirror: who drives, who sleeps.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/guest_transport.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <mutex>

#include "base/log.h"
#include "base/quiet_thread.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::net {
namespace {

// Descriptors that the child of a fork must close, so that the parent's end is seen by its gate.
std::atomic<int> g_socket_in_child{-1};
std::atomic<int> g_alive_in_child{-1};
// Copied at a time before it is sent: stays in a core's cache.
constexpr uint64_t kStagePieceBytes = 64 * 1024;
// What must be still before the destructors of libraries run, with its connection said goodbye.
std::atomic<GuestTransport*> g_at_exit{nullptr};

void close_in_child() {
  g_at_exit.store(nullptr, std::memory_order_relaxed);  // its thread is the parent's
  for (std::atomic<int>* each : {&g_socket_in_child, &g_alive_in_child}) {
    const int fd = each->exchange(-1, std::memory_order_relaxed);
    if (fd >= 0) ::close(fd);
  }
}

}  // namespace

GuestTransport::GuestTransport(Mapping memory, const protocol::ChannelSizes& sizes,
                               Reconnect reconnect)
    : memory_(std::move(memory)),
      sizes_(sizes),
      view_(memory_.data(), sizes_),
      mover_(view_),
      reconnect_(std::move(reconnect)) {}

Result<std::unique_ptr<GuestTransport>> GuestTransport::start(Mapping memory,
                                                              const protocol::ChannelSizes& sizes,
                                                              Connected first,
                                                              Reconnect reconnect) {
  std::unique_ptr<GuestTransport> transport(
      new GuestTransport(std::move(memory), sizes, std::move(reconnect)));
  VGPU_RETURN_IF_ERROR(transport->take(std::move(first)));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::from_errno(errno, "socketpair");
  transport->liveness_.reset(ends[0]);
  transport->alive_.reset(ends[1]);
  transport->bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!transport->bell_.valid()) return Status::from_errno(errno, "eventfd");
  g_alive_in_child.store(ends[1], std::memory_order_relaxed);
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, close_in_child) + std::atexit(stop_at_exit);
  (void)registered;
  int error = 0;
  {
    const QuietScope quiet;
    error = ::pthread_create(&transport->thread_, nullptr, run, transport.get());
  }
  if (error != 0) return Status::from_errno(error, "no thread for the network");
  transport->started_ = true;
  g_at_exit.store(transport.get(), std::memory_order_release);
  return transport;
}

void GuestTransport::stop() {
  if (!started_) return;
  started_ = false;
  stop_.store(true, std::memory_order_release);
  ring();
  ::pthread_join(thread_, nullptr);
  g_socket_in_child.store(-1, std::memory_order_relaxed);
  g_alive_in_child.store(-1, std::memory_order_relaxed);
}

// The channel is dead by now, so nobody comes any more; who is still here waits for the end.
void GuestTransport::stop_at_exit() {
  GuestTransport* transport = g_at_exit.exchange(nullptr, std::memory_order_acq_rel);
  if (transport == nullptr) return;
  transport->stop();
  transport->drive_.lock();
}

GuestTransport::~GuestTransport() {
  GuestTransport* self = this;
  g_at_exit.compare_exchange_strong(self, nullptr, std::memory_order_acq_rel);
  stop();
}

Status GuestTransport::send_descriptor(int /*fd*/, uint64_t /*tag*/) {
  return Status(StatusCode::kNotSupported, "descriptors do not cross a network");
}

Result<std::pair<UniqueFd, uint64_t>> GuestTransport::receive_descriptor(int /*timeout_ms*/) {
  return Status(StatusCode::kNotSupported, "descriptors do not cross a network");
}

void GuestTransport::ring() {
  const uint64_t one = 1;
  const int saved = errno;
  (void)!::write(bell_.get(), &one, sizeof(one));
  errno = saved;
}

// Of a parked thread no more is wanted when whoever waits for the answer is about to help itself;
// should it not, the thread looks when its lease is over.
void GuestTransport::published() {
  const bool expecting = expecting_.load(std::memory_order_relaxed);
  if (expecting) expecting_.store(false, std::memory_order_relaxed);
  // Partner: rest(), which says that it sleeps and then looks again.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t sleeping = sleeping_.load(std::memory_order_relaxed);
  if (sleeping != kAwake && !(sleeping == kParked && expecting)) wake();
}

void GuestTransport::wake() {
  if (sleeping_.exchange(kAwake, std::memory_order_acq_rel) != kAwake) ring();
}

void GuestTransport::expect(uint32_t slot, uint64_t offset, uint64_t bytes) {
  mover_.expect(slot, offset, bytes);
  expecting_.store(true, std::memory_order_relaxed);
}

// One look at both directions, under drive_. Whether anything moved.
bool GuestTransport::drive() {
  const bool sent = mover_.flush();
  const bool came = mover_.poll();
  return sent || came;
}

// By way of the mirror's own slab, which is what is sent again after a cut; a piece is on its way
// while the next is copied.
void GuestTransport::stage(uint64_t offset, std::span<const std::byte> from) {
  std::byte* const slab = view_.up_slab().data() + offset;
  const bool direct = from.data() == slab;
  // This thread drives: the other keeps away.
  helpers_.fetch_add(1, std::memory_order_relaxed);
  helped_.fetch_add(1, std::memory_order_relaxed);
  uint64_t done = 0, there = direct ? from.size() : 0;
  while (done < from.size() && !over_.load(std::memory_order_acquire)) {
    if (done == there) {
      const uint64_t bytes = std::min<uint64_t>(from.size() - there, kStagePieceBytes);
      std::memcpy(slab + there, from.data() + there, bytes);
      there += bytes;
    }
    bool moved = false, cut = false;
    {
      std::lock_guard lock(drive_);
      const uint64_t before = done;
      (void)mover_.stage(offset, there, &done);
      moved = drive() || done != before;
      cut = mover_.gone();
    }
    if (cut) {
      const timespec pause{0, kCutPauseNs};
      (void)::nanosleep(&pause, nullptr);
    } else if (!moved) {
      ::sched_yield();
    }
  }
  helpers_.fetch_sub(1, std::memory_order_relaxed);
}

// The progress thread's, but for the first.
Status GuestTransport::take(Connected connected) {
  const std::lock_guard lock(drive_);
  VGPU_RETURN_IF_ERROR(mover_.connect(connected.link.get(), connected.theirs));
  link_ = std::move(connected.link);
  g_socket_in_child.store(connected.socket_fd, std::memory_order_relaxed);
  return ok_status();
}

// After the end of a connection: another one. What is left of the last goes first, so that nothing
// of it can arrive any more. False: the session is over.
bool GuestTransport::recover() {
  std::unique_ptr<Link> last;
  Positions mine{};
  {
    const std::lock_guard lock(drive_);
    if (reconnect_ == nullptr || !mover_.error().ok()) return false;
    if (!link_->intact()) return false;  // the program has closed it, and means it
    g_socket_in_child.store(-1, std::memory_order_relaxed);
    mover_.disconnect();
    mine = mover_.positions();
    last = std::move(link_);
  }
  last.reset();
  Result<Connected> next = reconnect_(mine, stop_);
  if (!next.ok()) {
    VGPU_LOG_WARN("network: %s", next.status().text().c_str());
    return false;
  }
  const Status taken = take(std::move(next).value());
  if (!taken.ok()) VGPU_LOG_WARN("network: %s", taken.text().c_str());
  return taken.ok();
}

bool GuestTransport::help(bool (*ready)(void*), void* argument) {
  helpers_.fetch_add(1, std::memory_order_relaxed);
  helped_.fetch_add(1, std::memory_order_relaxed);
  const int64_t start = protocol::now_ns();
  bool is_ready = false;
  for (int64_t now = start; !is_ready && now - start < kHelpNsMax; now = protocol::now_ns()) {
    bool moved = false;
    {
      std::lock_guard lock(drive_);
      moved = drive();
    }
    is_ready = ready(argument);
    if (!is_ready && !moved) ::sched_yield();
  }
  if (!is_ready) sleepers_.fetch_add(1, std::memory_order_seq_cst);
  helpers_.fetch_sub(1, std::memory_order_seq_cst);
  // The progress thread looks from now on. Partner: rest(), likewise.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!is_ready) wake();
  return is_ready;
}

void GuestTransport::slept() { sleepers_.fetch_sub(1, std::memory_order_relaxed); }

void GuestTransport::close_liveness() {
  g_alive_in_child.store(-1, std::memory_order_relaxed);
  alive_.reset();
}

// Sleeps until the bell rings or, unless `park`, something comes. Parked only for a while.
void GuestTransport::rest(bool park) {
  sleeping_.store(park ? kParked : kAsleep, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: published()
  bool may_sleep =
      !stop_.load(std::memory_order_acquire) && (!mover_.pending() || mover_.blocked());
  int64_t ns = kLeaseNs;
  if (may_sleep && !park) {
    std::lock_guard lock(drive_);
    may_sleep = link_->may_sleep();
    ns = link_->sleep_ns();
  }
  // A thread that goes to sleep while we park is seen here or rings.
  if (park && sleepers_.load(std::memory_order_relaxed) != 0) may_sleep = false;
  if (may_sleep) {
    pollfd entries[] = {{bell_.get(), POLLIN, 0},
                        {park ? -1 : link_->completion_fd(), POLLIN, 0},
                        {park ? -1 : link_->event_fd(), POLLIN, 0},
                        {alive_.get(), POLLRDHUP, 0}};
    const timespec limit{static_cast<time_t>(ns / 1'000'000'000), ns % 1'000'000'000};
    (void)::ppoll(entries, std::size(entries), ns < 0 ? nullptr : &limit, nullptr);
    ended_ = entries[3].revents != 0;
    if ((entries[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      (void)!::read(bell_.get(), &count, sizeof(count));
    }
  }
  sleeping_.store(kAwake, std::memory_order_relaxed);
}

void GuestTransport::progress() {
  uint64_t helped = helped_.load(std::memory_order_relaxed);
  int64_t last = protocol::now_ns();
  while (!stop_.load(std::memory_order_acquire)) {
    bool moved = false, gone = false;
    {
      std::lock_guard lock(drive_);
      moved = drive();
      gone = mover_.gone();
    }
    if (gone || ended_) {
      if (ended_ || !recover()) break;
      continue;
    }
    const int64_t now = protocol::now_ns();
    if (moved) last = now;
    const uint64_t seen = helped_.load(std::memory_order_relaxed);
    const bool park = sleepers_.load(std::memory_order_relaxed) == 0 &&
                      (seen != helped || helpers_.load(std::memory_order_relaxed) != 0);
    if (!moved && (park || now - last >= kProgressSpinNs)) {
      helped = seen;
      rest(park);
    } else if (!moved) {
      ::sched_yield();
    }
  }
  std::lock_guard lock(drive_);
  over_.store(true, std::memory_order_release);
  if (!mover_.error().ok()) VGPU_LOG_WARN("network: %s", mover_.error().text().c_str());
  if (link_ != nullptr) link_->shut_down();
  close_liveness();
}

void* GuestTransport::run(void* argument) {
  static_cast<GuestTransport*>(argument)->progress();
  return nullptr;
}

}  // namespace vgpu::net
