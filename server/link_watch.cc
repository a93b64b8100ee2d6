// poll() over all connections, and an eventfd that interrupts it.
// SPDX-License-Identifier: Apache-2.0
#include "server/link_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace vgpu::server {

LinkWatch& link_watch() {
  static auto* const watch = new LinkWatch;  // NOLINT: its thread outlives everything
  return *watch;
}

void LinkWatch::add(int descriptor, std::function<void()> gone) {
  insert(descriptor, {std::move(gone), UniqueFd()});
}

void LinkWatch::add(UniqueFd descriptor, std::function<void()> gone) {
  const int number = descriptor.get();
  insert(number, {std::move(gone), std::move(descriptor)});
}

void LinkWatch::insert(int descriptor, Link link) {
  std::lock_guard lock(mutex_);
  links_[descriptor] = std::move(link);
  if (!running_) {
    running_ = true;
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    std::thread([this] { run(); }).detach();
  }
  wake();
}

void LinkWatch::remove(int descriptor) {
  std::lock_guard lock(mutex_);
  links_.erase(descriptor);
  wake();
}

void LinkWatch::wake() {
  const uint64_t one = 1;
  const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  (void)written;
}

void LinkWatch::run() {
  std::vector<pollfd> watched;
  std::vector<Link> ended;
  while (true) {
    for (const Link& link : ended) link.gone();  // without our lock
    ended.clear();
    {
      std::lock_guard lock(mutex_);
      watched.assign(1, {wake_.get(), POLLIN, 0});
      for (const auto& [descriptor, link] : links_) watched.push_back({descriptor, POLLRDHUP, 0});
    }
    // Without anything to be woken by, it looks for new connections itself.
    constexpr int kLookMs = 100;
    if (::poll(watched.data(), watched.size(), wake_.valid() ? -1 : kLookMs) <= 0) continue;
    uint64_t count = 0;
    if (watched[0].revents != 0 && ::read(wake_.get(), &count, sizeof(count)) < 0) continue;
    std::lock_guard lock(mutex_);
    for (size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) continue;
      // Removed since, and perhaps another's by now: that one is looked at next time.
      const auto found = links_.find(watched[i].fd);
      pollfd again{watched[i].fd, POLLRDHUP, 0};
      if (found == links_.end() || ::poll(&again, 1, 0) <= 0) continue;
      ended.push_back(std::move(found->second));
      links_.erase(found);
    }
  }
}

}  // namespace vgpu::server
