// Threads that compile kernels while streams wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace vgpu::softgpu {

// One per process, never destroyed. Thread-safe.
class CompileQueue {
 public:
  static CompileQueue& instance();
  // Runs `job` soon, on one of at most Engine::kAtOnceMax threads; on the calling one when the
  // system gives no thread. Jobs that wait when the process exits never run.
  void add(std::function<void()> job);

 private:
  CompileQueue();
  void loop();
  void stop();

  std::mutex mutex_;
  std::condition_variable added_, idle_;
  std::deque<std::function<void()>> jobs_;
  int threads_ = 0, working_ = 0;
  bool stopped_ = false;
};

}  // namespace vgpu::softgpu
