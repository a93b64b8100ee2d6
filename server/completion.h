// What waits for the device in place of the consumer: a pool of threads and queues of events.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_COMPLETION_H_
#define VGPU_SERVER_COMPLETION_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "protocol/limits.h"

namespace vgpu::server {

// Threads are made when a job finds none idle, up to this many; further jobs queue. A job only
// waits for the device or a lane, or compiles, never for another job, so a queue always moves. One
// for every reply slot: as jobs that answer have a pool to themselves, however many threads of the
// guest wait, one more is answered.
inline constexpr unsigned kCompletionThreadsMax = protocol::kReplySlots;

// Runs jobs that may block. Thread-safe.
class CompletionPool {
 public:
  explicit CompletionPool(unsigned threads_max = kCompletionThreadsMax)
      : threads_max_(threads_max) {}
  CompletionPool(const CompletionPool&) = delete;
  CompletionPool& operator=(const CompletionPool&) = delete;
  // Waits for the jobs that run; those that only queue then run here: they may hold what must go.
  ~CompletionPool() { stop(); }

  void post(std::function<void()> job);
  void stop();

 private:
  void work();

  const unsigned threads_max_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool stopping_ = false;
};

// Runs jobs one after the other on threads of a pool, of which it takes one while it has some.
// Thread-safe; lives as long as somebody holds it or it has jobs.
class Strand : public std::enable_shared_from_this<Strand> {
 public:
  explicit Strand(CompletionPool* pool) : pool_(pool) {}
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  void post(std::function<void()> job);

 private:
  void run();

  CompletionPool* const pool_;
  std::mutex mutex_;
  std::deque<std::function<void()>> jobs_;
  bool running_ = false;
};

// Runs steps strictly one after the other on a thread of its own, which exists once there was a
// step. Each step waits for the device and then raises a semaphore. Thread-safe.
class RetirementQueue {
 public:
  RetirementQueue() = default;
  RetirementQueue(const RetirementQueue&) = delete;
  RetirementQueue& operator=(const RetirementQueue&) = delete;
  ~RetirementQueue() { stop(); }

  void post(std::function<void()> step);
  // Whether a step is queued or runs.
  bool busy();
  void stop();
  // The same, but what is left is done first, by the caller.
  void stop_after_all();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> steps_;
  std::thread thread_;
  bool running_ = false;
  bool stopping_ = false;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_COMPLETION_H_
