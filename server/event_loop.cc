// epoll behind the event loop.
// SPDX-License-Identifier: Apache-2.0
#include "server/event_loop.h"

#include <sys/epoll.h>

#include <cerrno>

namespace vgpu::server {

Result<EventLoop> EventLoop::create() {
  EventLoop loop;
  loop.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!loop.epoll_.valid()) return Status::from_errno(errno, "epoll_create1");
  return loop;
}

Status EventLoop::add(int fd, std::function<void()> ready) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return Status::from_errno(errno, "epoll_ctl");
  }
  ready_[fd] = std::move(ready);
  return ok_status();
}

void EventLoop::remove(int fd) {
  if (ready_.erase(fd) != 0) (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::run_once(int timeout_ms) {
  epoll_event events[32];
  const int count = epoll_wait(epoll_.get(), events, 32, timeout_ms);
  for (int i = 0; i < count; ++i) {
    auto it = ready_.find(events[i].data.fd);
    if (it == ready_.end()) continue;  // removed by an earlier callback of this round
    const std::function<void()> ready = it->second;
    ready();
  }
}

}  // namespace vgpu::server
