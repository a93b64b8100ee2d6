// Compile threads start with the first jobs and stay.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/jit/compile_queue.h"

#include <pthread.h>

#include <cstdlib>

#include "base/time_slice.h"
#include "softgpu/exec/engine_thread.h"
#include "softgpu/jit/engine.h"

namespace vgpu::softgpu {
namespace {

// A forked child has the jobs but nobody who works, and locks that nobody will open.
bool in_child = false;

constexpr size_t kStackBytes = 16u << 20;  // the compiler recurses over large kernels

}  // namespace

CompileQueue& CompileQueue::instance() {
  static CompileQueue* const queue = new CompileQueue;
  return *queue;
}

// At exit the compiler's static objects are destroyed: whoever works with them ends before that.
// Global ones were made before this handler was entered, so it runs first; those inside functions
// are kept from being destroyed (softgpu/api/exit_handlers.cc).
CompileQueue::CompileQueue() {
  Engine::instance();
  ::pthread_atfork(nullptr, nullptr, [] { in_child = true; });
  std::atexit([] { instance().stop(); });
}

void CompileQueue::add(Job job) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (stopped_) {
    lock.unlock();
    return job(false);
  }
  jobs_.push_back(std::move(job));
  const int wanted = working_ + static_cast<int>(jobs_.size());
  if (threads_ < Engine::kAtOnceMax && threads_ < wanted) {
    if (start_engine_thread(
            "vgpu-jit",
            [this] {
              use_usual_time_slices();
              loop();
            },
            kStackBytes))
      ++threads_;
  }
  if (threads_ == 0) {
    const Job own = std::move(jobs_.back());
    jobs_.pop_back();
    lock.unlock();
    own(true);
    return;
  }
  added_.notify_one();
}

void CompileQueue::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return !jobs_.empty() && !stopped_; });
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    ++working_;
    lock.unlock();
    job(true);
    job = nullptr;
    lock.lock();
    if (--working_ == 0) idle_.notify_all();
  }
}

void CompileQueue::stop() {
  if (in_child) return;
  std::unique_lock<std::mutex> lock(mutex_);
  stopped_ = true;
  std::deque<Job> left;
  left.swap(jobs_);
  lock.unlock();
  for (const Job& job : left) job(false);
  lock.lock();
  idle_.wait(lock, [this] { return working_ == 0; });
}

}  // namespace vgpu::softgpu
