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
  // Told whether it may compile; when not, it only tells those who wait for it.
  using Job = std::function<void(bool may_compile)>;
  // Runs `job` soon, on one of at most Engine::kAtOnceMax threads; on the calling one when the
  // system gives no thread. Jobs that wait when the process exits, or come later, may not compile.
  void add(Job job);

 private:
  CompileQueue();
  void loop();
  void stop();

  std::mutex mutex_;
  std::condition_variable added_, idle_;
  std::deque<Job> jobs_;
  int threads_ = 0, working_ = 0;
  bool stopped_ = false;
};

}  // namespace vgpu::softgpu
