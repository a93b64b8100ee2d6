// Threads that wait for the device.
// SPDX-License-Identifier: Apache-2.0
#include "server/completion.h"

#include <utility>

namespace vgpu::server {

void CompletionPool::post(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  if (idle_ < jobs_.size() && threads_.size() < threads_max_) {
    threads_.emplace_back([this] { work(); });
  }
  posted_.notify_one();
}

void CompletionPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    posted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    --idle_;
    if (stopping_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds may have to ask the driver when it goes
    lock.lock();
  }
}

void CompletionPool::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    posted_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  std::deque<std::function<void()>> left;
  {
    std::lock_guard lock(mutex_);
    left.swap(jobs_);
  }
  for (const auto& job : left) job();
}

void Strand::post(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (running_) return;
  running_ = true;
  pool_->post([self = shared_from_this()] { self->run(); });
}

void Strand::run() {
  std::unique_lock lock(mutex_);
  while (!jobs_.empty()) {
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes without our lock
    lock.lock();
  }
  running_ = false;
}

void RetirementQueue::post(std::function<void()> step) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  steps_.push_back(std::move(step));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  posted_.notify_one();
}

bool RetirementQueue::busy() {
  std::lock_guard lock(mutex_);
  return running_ || !steps_.empty();
}

void RetirementQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    posted_.wait(lock, [this] { return stopping_ || !steps_.empty(); });
    if (stopping_) return;
    std::function<void()> step = std::move(steps_.front());
    steps_.pop_front();
    running_ = true;
    lock.unlock();
    step();
    step = nullptr;
    lock.lock();
    running_ = false;
  }
}

void RetirementQueue::stop_after_all() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (;;) {
    std::unique_lock lock(mutex_);
    if (steps_.empty()) return;
    const std::function<void()> step = std::move(steps_.front());
    steps_.pop_front();
    lock.unlock();
    step();
  }
}

void RetirementQueue::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  std::deque<std::function<void()>> left;  // dropped now: their marks go back to the contexts
  std::lock_guard lock(mutex_);
  left.swap(steps_);
}

}  // namespace vgpu::server
