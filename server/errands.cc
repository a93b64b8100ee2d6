// A queue, a thread, and an eventfd for the way back.
// SPDX-License-Identifier: Apache-2.0
#include "server/errands.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/quiet_thread.h"

namespace vgpu::server {

Result<std::unique_ptr<Errands>> Errands::create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return Status::from_errno(errno, "eventfd");
  return std::unique_ptr<Errands>(new Errands(std::move(fd)));
}

Errands::Errands(UniqueFd done_fd) : done_fd_(std::move(done_fd)) {
  const QuietScope quiet;  // signals are for the owner's thread
  thread_ = std::thread([this] { run(); });
}

Errands::~Errands() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wakeup_.notify_one();
  thread_.join();
}

void Errands::add(std::function<void()> work, std::function<void()> then) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(work), std::move(then)});
  }
  wakeup_.notify_one();
}

void Errands::finish() {
  uint64_t count = 0;
  (void)!read(done_fd_.get(), &count, sizeof(count));
  std::deque<Errand> done;
  {
    std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const Errand& errand : done) errand.then();
}

bool Errands::idle() const {
  std::lock_guard lock(mutex_);
  return waiting_.empty() && done_.empty() && !working_;
}

void Errands::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wakeup_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Errand errand = std::move(waiting_.front());
    waiting_.pop_front();
    working_ = true;
    lock.unlock();
    errand.work();
    lock.lock();
    working_ = false;
    done_.push_back(std::move(errand));
    const uint64_t one = 1;
    (void)!write(done_fd_.get(), &one, sizeof(one));
  }
}

}  // namespace vgpu::server
