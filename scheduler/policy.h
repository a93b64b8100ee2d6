// What a scheduling policy decides: whether a piece of work may start now.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_POLICY_H_
#define VGPU_SCHEDULER_POLICY_H_

#include <cstdint>

namespace vgpu::scheduler {

// One piece of work as a policy sees it. No policy knows CUDA, time or I/O: all come as numbers.
struct Work {
  uint64_t client = 0;    // whose work it is
  uint64_t sequence = 0;  // its place in the client's own order; rises by any step
  uint64_t cost = 0;      // estimate, in nanoseconds of device time
};

// Decides on work in the order in which it is offered. Not thread-safe: the owner calls it from one
// thread or under its own lock. Every admitted work is finished exactly once.
class Policy {
 public:
  virtual ~Policy() = default;
  // Whether `work` may start now. False: offer it again after the next finish().
  virtual bool admit(const Work& work) = 0;
  // Work that was admitted is past; `measured` is what it really cost (0 = not known).
  virtual void finish(const Work& work, uint64_t measured) = 0;
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_POLICY_H_
