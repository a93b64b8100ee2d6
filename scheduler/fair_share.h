// The policy of the product: a fair queue for each engine of a device.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_FAIR_SHARE_H_
#define VGPU_SCHEDULER_FAIR_SHARE_H_

#include <array>

#include "scheduler/fair_queue.h"

namespace vgpu::scheduler {

// Copies and kernels do not take from each other's share: each engine has a virtual clock of its
// own. A client's weight, class and cap hold on all of them.
class FairShare final : public Policy {
 public:
  explicit FairShare(const FairLimits& limits = {})
      : queues_{FairQueue(limits), FairQueue(limits), FairQueue(limits)} {}

  void set_share(uint64_t client, const Share& share, uint64_t now) override {
    for (FairQueue& queue : queues_) queue.set_share(client, share, now);
  }
  void remove(uint64_t client, uint64_t) override {
    for (FairQueue& queue : queues_) queue.remove(client);
  }
  void used(const Work& work, uint64_t now) override {
    of(work.engine).used(work.client, work.cost, now);
  }
  void set_stalled(uint64_t client, bool stalled) override {
    for (FairQueue& queue : queues_) queue.set_stalled(client, stalled);
  }
  void set_busy(Engine engine, uint32_t permille) override { of(engine).set_busy(permille); }
  bool forget_busy(Engine engine) override { return of(engine).forget_busy(); }
  bool throttled(uint64_t client) const override {
    for (const FairQueue& queue : queues_) {
      if (queue.throttled(client)) return true;
    }
    return false;
  }

  bool admit(const Work& work, uint64_t now) override {
    return of(work.engine).admit(work.client, work.cost, now);
  }
  void finish(const Work& work, uint64_t measured, uint64_t now) override {
    of(work.engine).finish(work.client, work.cost, measured, now);
  }
  void withdraw(uint64_t client, uint64_t) override {
    for (FairQueue& queue : queues_) queue.withdraw(client);
  }
  uint64_t retry_at(uint64_t now) const override {
    uint64_t soonest = kNever;
    for (const FairQueue& queue : queues_) soonest = std::min(soonest, queue.retry_at(now));
    return soonest;
  }

  const FairQueue& queue(Engine engine) const { return queues_[static_cast<uint32_t>(engine)]; }

 private:
  FairQueue& of(Engine engine) { return queues_[static_cast<uint32_t>(engine)]; }

  std::array<FairQueue, kEngines> queues_;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_FAIR_SHARE_H_
