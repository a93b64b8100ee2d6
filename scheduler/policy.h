// What a scheduling policy decides: whether a piece of work may start now.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_POLICY_H_
#define VGPU_SCHEDULER_POLICY_H_

#include <cstdint>

#include "scheduler/share.h"

namespace vgpu::scheduler {

inline constexpr uint64_t kNever = UINT64_MAX;

// One piece of work as a policy sees it. No policy knows CUDA or I/O: all come as numbers.
struct Work {
  uint64_t client = 0;    // whose work it is
  uint64_t sequence = 0;  // its place in the client's own order; rises by any step
  uint64_t cost = 0;      // estimate, in nanoseconds of device time
  Engine engine = Engine::kCompute;
};

// Decides on work in the order in which it is offered; a client offers the oldest piece that it has
// for an engine. Times are nanoseconds of any clock that does not run backwards. Not thread-safe:
// the owner calls it from one thread or under its own lock. Every admitted work is finished exactly
// once.
class Policy {
 public:
  virtual ~Policy() = default;
  // Whether `work` may start now. False: it waits, and is offered again after the next finish(),
  // withdraw() or retry_at().
  virtual bool admit(const Work& work, uint64_t now) = 0;
  // Work that was admitted is past; `measured` is what it really cost (0 = not known).
  virtual void finish(const Work& work, uint64_t measured, uint64_t now) = 0;
  // Work of `client` that waits will not be offered again: it went away, or is silent.
  virtual void withdraw(uint64_t client, uint64_t now) = 0;
  // When waiting work may start although nothing finishes before; kNever: not by time alone.
  virtual uint64_t retry_at(uint64_t now) const = 0;

  // --- for policies that know shares; the others need not care
  // From now on; a client that was never named has the default share.
  virtual void set_share(uint64_t, const Share&, uint64_t) {}
  // The client is gone, with all that it had in flight.
  virtual void remove(uint64_t client, uint64_t now) { withdraw(client, now); }
  // `work.cost` of device time was used beside what was admitted.
  virtual void used(const Work&, uint64_t) {}
  // Nothing of a client's work moves any more, or it moves again: nobody need wait for it.
  virtual void set_stalled(uint64_t, bool) {}
  // Of late, although somebody waits, an engine had work for so many thousandths of the time; told
  // now and then.
  virtual void set_busy(Engine, uint32_t) {}
  // Nobody has waited for an engine for some time: what was told of it before counts less. False:
  // there is nothing left to forget.
  virtual bool forget_busy(Engine) { return false; }
  // Whether work of `client` waits because of its cap.
  virtual bool throttled(uint64_t) const { return false; }
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_POLICY_H_
