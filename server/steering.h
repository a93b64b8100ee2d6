// What vgpud changes while a guest runs, on the worker's side.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_STEERING_H_
#define VGPU_SERVER_STEERING_H_

#include <functional>
#include <mutex>

#include "protocol/ring/semaphore.h"
#include "server/guest_memory.h"
#include "server/worker_link.h"

namespace vgpu::server {

// Thread-safe. Lives as long as the process: the watching thread may be anywhere in it.
class Steering {
 public:
  // The session's memory, and where the guest sees its quota. Both stay borrowed.
  void attach(GuestMemory* memory, protocol::SemaphoreWriter* semaphores) {
    std::lock_guard lock(mutex_);
    memory_ = memory;
    semaphores_ = semaphores;
    if (waiting_) apply(order_);
    waiting_ = false;
  }

  // The session is over.
  void detach() {
    std::lock_guard lock(mutex_);
    memory_ = nullptr;
  }

  // Makes an order hold, and says what the guest had of each device at that moment. Before there is
  // a session the order waits for it.
  WorkerObeyed obey(const WorkerOrder& order) {
    std::lock_guard lock(mutex_);
    WorkerObeyed obeyed;
    obeyed.number = order.number;
    order_ = order;
    waiting_ = memory_ == nullptr;
    if (waiting_) return obeyed;
    apply(order);
    for (uint32_t i = 0; i < memory_->devices(); ++i)
      obeyed.used_bytes[i] = memory_->on(i)->quota().used();
    return obeyed;
  }

 private:
  void apply(const WorkerOrder& order) {
    for (uint32_t i = 0; i < memory_->devices() && i < order.grants.count; ++i) {
      memory_->on(i)->set_quota(order.grants.bytes[i]);
      semaphores_->set_quota(i, order.grants.bytes[i]);
    }
  }

  std::mutex mutex_;
  GuestMemory* memory_ = nullptr;
  protocol::SemaphoreWriter* semaphores_ = nullptr;
  WorkerOrder order_;
  bool waiting_ = false;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_STEERING_H_
