// Looks at the oldest launch of every stream, several times within the limit.
// SPDX-License-Identifier: Apache-2.0
#include "server/watchdog.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace vgpu::server {
// Null when the driver makes no event: then the launch is not watched.
MarkRef Watchdog::record(Context* context, CUstream stream) {
  auto mark = std::make_shared<Mark>(context);
  if (context->events.take(*driver_, &mark->event) != CUDA_SUCCESS ||
      driver_->cuEventRecord(mark->event, stream) != CUDA_SUCCESS) {
    return nullptr;
  }
  return mark;
}

void Watchdog::add(CUstream stream, Launch launch) {
  if (launch.begin == nullptr || launch.end == nullptr) return;
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  launches_[stream].push_back(std::move(launch));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_one();
}

bool Watchdog::past(const Mark& mark) const {
  // A context that is gone, or broken, runs nothing.
  const Rundown::Use use(&mark.context->use);
  if (!use) return true;
  (void)driver_->cuCtxSetCurrent(mark.context->handle);
  return driver_->cuEventQuery(mark.event) != CUDA_ERROR_NOT_READY;
}

bool Watchdog::look() {
  for (auto it = launches_.begin(); it != launches_.end();) {
    std::deque<Launch>& waiting = it->second;
    while (!waiting.empty() && past(*waiting.front().end)) waiting.pop_front();
    if (waiting.empty()) {
      it = launches_.erase(it);
      continue;
    }
    Launch& first = waiting.front();
    if (first.began_ms == 0 && past(*first.begin)) first.began_ms = monotonic_ms();
    if (first.began_ms != 0 && monotonic_ms() - first.began_ms > first.limit_ms) return true;
    ++it;
  }
  return false;
}

void Watchdog::run() {
  const std::chrono::milliseconds step(std::clamp<uint64_t>(limit_ms_ / 10, 1, 500));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait(lock, [this] { return stopping_ || !launches_.empty(); });
    if (stopping_) return;
    if (look()) {
      lock.unlock();
      expired_();
      return;
    }
    changed_.wait_for(lock, step, [this] { return stopping_; });
  }
}

void Watchdog::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  launches_.clear();
}

}  // namespace vgpu::server
