// The thread that does what streams wait for.
// SPDX-License-Identifier: Apache-2.0

#include <chrono>

#include "base/log.h"
#include "base/quiet_thread.h"
#include "router/transfers.h"

namespace vgpu::router {
namespace {

// How often servers are looked at that may have gone with what is waited for.
constexpr std::chrono::milliseconds kLookEvery{100};

}  // namespace

// Under mutex_. The thread takes no signal of the program's.
bool Transfers::start() {
  if (started_) return true;
  const auto run_all = [](void* transfers) -> void* {
    static_cast<Transfers*>(transfers)->run();
    return nullptr;
  };
  started_ = start_quiet_thread(run_all, this) == 0;
  if (!started_) VGPU_LOG_ERROR("no thread for copies between servers");
  return started_;
}

void Transfers::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (ready_.empty()) {
      if (pending_.empty()) {
        ready_changed_.wait(lock);
      } else if (ready_changed_.wait_for(lock, kLookEvery) == std::cv_status::timeout) {
        look_for_lost();
      }
    }
    Job job = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    if (job.helper != nullptr) give_back(*job.at, job.at_context, job.helper);
    const CUresult result = job.work ? job.work() : CUDA_SUCCESS;
    finish(job, result);
    outstanding_.fetch_sub(1, std::memory_order_relaxed);
    lock.lock();
  }
}

// Under mutex_: a host function of a server that has gone never comes.
void Transfers::look_for_lost() {
  for (auto each = pending_.begin(); each != pending_.end();) {
    const auto job = each++;
    if (job->second.at->library->is_lost() == 0) continue;
    job->second.helper = nullptr;
    job->second.work = [] { return CUDA_ERROR_DEVICE_UNAVAILABLE; };
    begin_locked(job);
  }
}

void Transfers::finish(Job& job, CUresult result) {
  Line& line = *job.line;
  uint32_t released = 0;
  {
    std::lock_guard lock(mutex_);
    if (result != CUDA_SUCCESS && !line.context_ended) {
      failures_.emplace(ContextKey{line.server->number, line.context}, result);
      any_failures_.store(true, std::memory_order_relaxed);
    }
    line.done.insert(job.number);
    while (line.done.erase(line.released + 1) != 0) ++line.released;
    if (line.released < job.number || line.context_ended) return;
    released = line.released;
  }
  if (result != CUDA_SUCCESS) VGPU_LOG_WARN("a copy between servers has failed: %d", result);
  raise(line, released);
}

// In a stream of its own, as the one that waits is held.
void Transfers::raise(const Line& line, uint32_t value) {
  Server& server = *line.server;
  CUstream writer = nullptr;
  CUresult result = server.driver.cuCtxSetCurrent(line.context);
  if (result == CUDA_SUCCESS) result = borrow(server, line.context, &writer);
  if (result != CUDA_SUCCESS) return;  // its context has ended, or its server is lost
  result = server.driver.cuMemcpyHtoDAsync_v2(line.word, &value, sizeof(value), writer);
  if (result != CUDA_SUCCESS) VGPU_LOG_ERROR("a stream that waits cannot be told: %d", result);
  give_back(server, line.context, writer);
}

}  // namespace vgpu::router
