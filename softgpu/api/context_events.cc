// Events of a whole context: behind all of its work, and before all that is to come.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "softgpu/api/context_object.h"

namespace vgpu::softgpu {
namespace {

std::unique_ptr<Command> waiting_for(std::vector<std::shared_ptr<EventPoint>> points) {
  auto command = std::make_unique<Command>();
  command->waits = std::move(points);
  return command;
}

bool reached(const std::shared_ptr<EventPoint>& point) {
  return point->reached.load(std::memory_order_acquire) != 0;
}

}  // namespace

void Context::record(const std::shared_ptr<EventPoint>& point) {
  std::shared_ptr<StreamQueue> queue;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (gathering_ == nullptr)
      gathering_ = device_->management().open_queue(channel_.get(), false, false, kPriorityLeast);
    queue = gathering_;
  }
  auto command = std::make_unique<Command>();
  command->behind_all = true;
  command->record = point;
  device_->management().submit(queue, std::move(command));
}

void Context::wait_for(const std::shared_ptr<EventPoint>& point) {
  std::vector<std::shared_ptr<Stream>> all;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (legacy_ == nullptr) return;  // another thread ends the context
    std::erase_if(gates_, reached);
    gates_.push_back(point);
    all = streams_;
    for (const auto& [thread, stream] : per_thread_) all.push_back(stream);
    all.push_back(legacy_);
  }
  for (const std::shared_ptr<Stream>& stream : all)
    device_->management().submit(stream->queue, waiting_for({point}));
}

void Context::gate(const Stream& fresh) {
  std::erase_if(gates_, reached);
  if (!gates_.empty()) device_->management().submit(fresh.queue, waiting_for(gates_));
}

}  // namespace vgpu::softgpu
