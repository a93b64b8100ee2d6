// Waits for values in memory.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/watch_engine.h"

#include <algorithm>
#include <chrono>

#include "softgpu/exec/engine_thread.h"
#include "softgpu/exec/grid_management.h"

namespace vgpu::softgpu {
namespace {

// Between looks: short at first, so that a hand-over is quick; long when nothing comes.
constexpr std::chrono::microseconds kLookMin{20}, kLookMax{1000};

bool is_over(const Command* command) {
  return command->queue->channel->sticky() != CUDA_SUCCESS || command->ready();
}

}  // namespace

void WatchEngine::add(Command* command) {
  std::lock_guard<std::mutex> lock(mutex_);
  commands_.push_back(command);
  if (!running_) running_ = start_engine_thread("vgpu-watch", [this] { loop(); });
  added_.notify_one();
}

void WatchEngine::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::chrono::microseconds pause = kLookMin;
  for (;;) {
    if (commands_.empty()) {
      added_.wait(lock, [this] { return !commands_.empty(); });
      pause = kLookMin;
    }
    const auto done = std::partition(commands_.begin(), commands_.end(),
                                     [](const Command* command) { return !is_over(command); });
    const std::vector<Command*> over(done, commands_.end());
    commands_.erase(done, commands_.end());
    if (!over.empty()) {
      lock.unlock();
      for (Command* const command : over) management_->complete(command);
      lock.lock();
      pause = kLookMin;
      continue;
    }
    const size_t known = commands_.size();
    added_.wait_for(lock, pause, [&] { return commands_.size() != known; });
    pause = commands_.size() != known ? kLookMin : std::min(pause * 2, kLookMax);
  }
}

}  // namespace vgpu::softgpu
