// Copies, memsets and host functions off the caller's thread.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/serial_engine.h"

#include "base/time_slice.h"
#include "softgpu/exec/engine_thread.h"
#include "softgpu/exec/grid_management.h"

namespace vgpu::softgpu {

void SerialEngine::add(Command* command) {
  std::lock_guard<std::mutex> lock(mutex_);
  commands_.push_back(command);
  if (!running_) running_ = start_engine_thread(name_, [this] { loop(); });
  added_.notify_one();
}

void SerialEngine::loop() {
  use_usual_time_slices();
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    added_.wait(lock, [this] { return !commands_.empty(); });
    Command* const command = commands_.front();
    commands_.pop_front();
    lock.unlock();
    run(*command);
    management_->complete(command);
    lock.lock();
  }
}

// What a graph's commands submit is of the graph's piece.
void SerialEngine::run(const Command& command) {
  const PieceScope scope(command.piece);
  const MeteredWork metered(command.kind == CommandKind::kCopy ? command.piece : PieceRef());
  command.work();
}

}  // namespace vgpu::softgpu
