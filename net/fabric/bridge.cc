// The gate's loop: awake, resting, over.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/bridge.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/futex.h"
#include "base/futex_any.h"
#include "net/fabric/fabric_limits.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::net {

Bridge::Bridge(const protocol::ChannelView& view, int liveness_fd, int end_fd,
               std::function<bool()> interrupted)
    : view_(view),
      mover_(view),
      liveness_fd_(liveness_fd),
      end_fd_(end_fd),
      interrupted_(std::move(interrupted)),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Bridge::~Bridge() {
  if (!started_) return;
  stop_.store(true, std::memory_order_seq_cst);
  armed_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&armed_);
  ::pthread_join(helper_, nullptr);
}

// The worker is gone, or the session is to end.
bool Bridge::ended() const {
  pollfd entries[] = {{liveness_fd_, POLLIN | POLLRDHUP, 0}, {end_fd_, POLLIN, 0}};
  if (::poll(entries, 2, 0) <= 0) return false;
  constexpr short kGone = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;
  return (entries[0].revents & kGone) != 0 || (entries[1].revents != 0 && interrupted_());
}

Status Bridge::start() {
  if (!bell_.valid()) return Status::from_errno(errno, "eventfd");
  const int error = ::pthread_create(&helper_, nullptr, run, this);
  if (error != 0) return Status::from_errno(error, "no thread for the worker's words");
  started_ = true;
  return ok_status();
}

Status Bridge::serve(Link* link, const Positions& theirs) {
  VGPU_RETURN_IF_ERROR(mover_.connect(link, theirs));
  link_ = link;
  int64_t last = protocol::now_ns();
  bool over = false;
  while (!mover_.gone() && !over) {
    bool moved = mover_.poll();
    const int64_t now = protocol::now_ns();
    moved = mover_.report(now, false) || moved;
    if (moved) {
      last = now;
      continue;
    }
    if (now - last < kProgressSpinNs) {
      ::sched_yield();
      continue;
    }
    if (mover_.report(now, true)) continue;
    rest();
    over = ended();
    last = protocol::now_ns() - kProgressSpinNs / 2;
  }
  // The last words of a worker that has failed the session.
  for (int i = 0; i < 8 && !mover_.gone(); ++i) (void)mover_.report(protocol::now_ns(), true);
  mover_.disconnect();
  link_ = nullptr;
  return mover_.error();
}

// Sleeps until the network, the worker, or the end says something.
void Bridge::rest() {
  const uint32_t epoch = view_.semaphores()->waiters.epoch.load(std::memory_order_seq_cst);
  mover_.begin_sleep();
  const bool news = mover_.report(protocol::now_ns(), true);
  if (!news && link_->may_sleep()) {
    const uint32_t watched = watching_.load(std::memory_order_acquire);
    if (watched == 0 || expected_.load(std::memory_order_relaxed) != epoch) {
      expected_.store(epoch, std::memory_order_relaxed);
      armed_.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(&armed_, 1);
    }
    pollfd entries[] = {{link_->completion_fd(), POLLIN, 0},
                        {link_->event_fd(), POLLIN, 0},
                        {bell_.get(), POLLIN, 0},
                        {liveness_fd_, POLLRDHUP, 0},
                        {end_fd_, POLLIN, 0}};
    const int64_t ns = link_->sleep_ns();
    const timespec limit{static_cast<time_t>(ns / 1'000'000'000), ns % 1'000'000'000};
    (void)::ppoll(entries, std::size(entries), ns < 0 ? nullptr : &limit, nullptr);
    if ((entries[2].revents & POLLIN) != 0) {
      uint64_t count = 0;
      (void)!::read(bell_.get(), &count, sizeof(count));
    }
  }
  mover_.end_sleep();
}

// The helper: one wait on the worker's three words for each sleep that wants it.
void Bridge::watch() {
  protocol::SemaphorePage* page = view_.semaphores();
  std::atomic<uint32_t>* const room = &view_.header()->producer_sleep.sleeping;
  std::atomic<uint32_t>* const calls = &view_.host_calls()->guest_sleep.sleeping;
  uint32_t armed = 0;
  while (!stop_.load(std::memory_order_seq_cst)) {
    while (armed_.load(std::memory_order_seq_cst) == armed) futex_wait(&armed_, armed, -1);
    armed = armed_.load(std::memory_order_seq_cst);
    const uint32_t epoch = expected_.load(std::memory_order_relaxed);
    watching_.store(armed, std::memory_order_release);
    const FutexWait words[] = {
        {&armed_, armed}, {&page->waiters.epoch, epoch}, {room, 1}, {calls, 1}};
    futex_wait_any(words);
    watching_.store(0, std::memory_order_release);
    if (armed_.load(std::memory_order_seq_cst) != armed) continue;
    const uint64_t one = 1;
    (void)!::write(bell_.get(), &one, sizeof(one));
  }
}

void* Bridge::run(void* argument) {
  static_cast<Bridge*>(argument)->watch();
  return nullptr;
}

}  // namespace vgpu::net
