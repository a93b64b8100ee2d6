// Threads that wait for loops to share.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_SOFTGPU_WORKERS_H_
#define VGPU_TOOLS_BENCH_SOFTGPU_WORKERS_H_

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::bench {

// The caller works, too: `threads` - 1 are started. Never destroyed.
class Workers {
 public:
  explicit Workers(unsigned threads) {
    for (unsigned i = 1; i < threads; ++i) std::thread(&Workers::loop, this).detach();
    threads_ = threads;
  }

  unsigned threads() const { return threads_; }

  // Calls body(first, last) for consecutive pieces of [0, n), several for each thread.
  void share(size_t n, const std::function<void(size_t, size_t)>& body) {
    {
      std::lock_guard lock(mutex_);
      body_ = &body;
      n_ = n;
      next_ = 0;
      piece_ = std::max<size_t>(1, n / (size_t{threads_} * 8));
      working_ = threads_ - 1;
      ++round_;
    }
    start_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return working_ == 0; });
  }

 private:
  void work() {
    for (;;) {
      size_t first, last;
      {
        std::lock_guard lock(mutex_);
        first = next_;
        if (first >= n_) return;
        last = next_ = std::min(n_, first + piece_);
      }
      (*body_)(first, last);
    }
  }

  void loop() {
    for (unsigned seen = 0;;) {
      {
        std::unique_lock lock(mutex_);
        start_.wait(lock, [&] { return round_ != seen; });
        seen = round_;
      }
      work();
      std::lock_guard lock(mutex_);
      if (--working_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t n_ = 0, next_ = 0, piece_ = 1;
  unsigned threads_ = 1, working_ = 0, round_ = 0;
};

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_SOFTGPU_WORKERS_H_
