// Waiting for the peer: spin for a while where that can help, then sleep.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_DOORBELL_H_
#define VGPU_PROTOCOL_RING_DOORBELL_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "protocol/limits.h"
#include "protocol/ring/bell.h"

namespace vgpu::protocol {

// How a waiter spends its time. kAdaptive is the rule of the product: spin only when the peer was
// last seen on another CPU, for a budget that follows how long waits last; kRemote is the same for
// a peer under another kernel, whose CPU numbers say nothing. The other two are for tests: they
// make the sleeping or the spinning path certain.
enum class SpinMode : uint8_t { kAdaptive, kNever, kForever, kRemote };

// The mode of one side of a channel whose peer is woken so.
inline SpinMode spin_mode(SpinMode wanted, const Bell& bell) {
  return wanted == SpinMode::kAdaptive && bell.remote() ? SpinMode::kRemote : wanted;
}

enum class WaitResult : uint8_t {
  kReady,    // the condition holds
  kTimeout,  // the time given is over
  kDead,     // mark_dead() was called; nothing will come any more
};

// Decides for one waiter how long to spin. Not thread-safe: one per waiting thread or held under
// its lock.
class SpinBudget {
 public:
  explicit SpinBudget(SpinMode mode = SpinMode::kAdaptive) : mode_(mode) {}

  // Nanoseconds to spin now, given the CPU on which the peer was seen last; INT64_MAX = for ever.
  int64_t budget_ns(uint32_t peer_cpu) const;
  SpinMode mode() const { return mode_; }

  // A wait began, and it is over, by spinning or by sleeping. Waits that spinning could have ended
  // raise the budget above what they took, however they ended: two sides that both sleep would
  // otherwise keep each other's waits too long for a small budget for ever. Longer ones halve it.
  void begin(int64_t now_ns) { began_ns_ = now_ns; }
  void end(int64_t now_ns);

 private:
  SpinMode mode_;
  int64_t budget_ns_ = kSpinNsStart;
  int64_t began_ns_ = 0;
};

// Monotonic nanoseconds.
int64_t now_ns();

// CPU numbers are stored plus one, so that fresh zeroed memory says "never seen".
inline uint32_t this_cpu() { return static_cast<uint32_t>(sched_getcpu() + 1); }

// Tells the peer where we run. Relaxed: a hint; written only when it changed, to keep the line
// quiet.
inline void publish_cpu(std::atomic<uint32_t>* cpu) {
  const uint32_t here = this_cpu();
  if (cpu->load(std::memory_order_relaxed) != here) cpu->store(here, std::memory_order_relaxed);
}

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Leaves shared lines alone for `ns` nanoseconds without giving up the CPU.
inline void pause_for(int64_t ns) {
  for (const int64_t end = now_ns() + ns; now_ns() < end;) cpu_pause();
}

// Asks for the line at `place` to be written to soon, without waiting for it.
inline void prefetch_for_write(const void* place) {
#if defined(__x86_64__)
  // The builtin only reads ahead unless the compiler may assume an instruction that older CPUs
  // ignore.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

// Rings: call after the release store that makes the condition true. One load when nobody sleeps.
//   ringer:  store condition (release); fence; load sleeping
//   sleeper: store sleeping;            fence; load condition
// The two seq_cst fences make it impossible that both loads miss both stores (Dekker), so no
// wake-up is lost.
inline void ring_doorbell(const Bell& bell, std::atomic<uint32_t>* sleeping) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (sleeping->load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (sleeping->exchange(0, std::memory_order_acq_rel) != 0) bell.wake_peer(sleeping);
  }
}

// Looks at `ready` for as long as about 32 pauses take.
template <typename Ready>
bool spin_briefly(const std::atomic<bool>& dead, Ready ready) {
  for (int i = 0; i < 32; ++i) {
    if (ready() || dead.load(std::memory_order_relaxed)) return true;
    cpu_pause();
  }
  return false;
}

// Spins while `ready` says no, within the budget. Returns whether it became ready (or `dead` was
// set); if not, the caller sleeps and then says budget->end(). What is over within a fraction of a
// microsecond asks no clock.
template <typename Ready>
bool spin_until(SpinBudget* budget, const std::atomic<uint32_t>& peer_cpu,
                const std::atomic<bool>& dead, int64_t deadline_ns, Ready ready) {
  const int64_t budget_ns = budget->budget_ns(peer_cpu.load(std::memory_order_relaxed));
  if (budget_ns != 0 && spin_briefly(dead, ready)) return true;
  int64_t now = now_ns();
  const int64_t start = now;
  budget->begin(start);
  while (now - start < budget_ns && now < deadline_ns) {
    const bool over = spin_briefly(dead, ready);
    now = now_ns();
    if (over) {
      budget->end(now);
      return true;
    }
    if (budget->mode() == SpinMode::kForever)
      sched_yield();  // so that the mode ends on one CPU as well
  }
  return false;
}

// Waits until `ready` (an acquire load of what the peer stores before it rings), `dead`, or
// timeout_ns (< 0: no limit). `sleeping` is the word of this one waiter; the peer rings it
// with ring_doorbell, mark_dead with wake_sleeper.
template <typename Ready>
WaitResult wait_for(const Bell& bell, std::atomic<uint32_t>* sleeping, SpinBudget* budget,
                    const std::atomic<uint32_t>& peer_cpu, const std::atomic<bool>& dead,
                    int64_t timeout_ns, Ready ready) {
  if (ready()) return WaitResult::kReady;
  if (dead.load(std::memory_order_acquire)) return WaitResult::kDead;
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  if (spin_until(budget, peer_cpu, dead, deadline, ready) && ready()) return WaitResult::kReady;
  for (;;) {
    if (ready()) break;
    if (dead.load(std::memory_order_acquire)) return WaitResult::kDead;
    const int64_t left = timeout_ns < 0 ? -1 : deadline - now_ns();
    if (timeout_ns >= 0 && left <= 0) return WaitResult::kTimeout;
    sleeping->store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: ring_doorbell, wake_sleeper
    if (!ready() && !dead.load(std::memory_order_relaxed)) bell.wait(sleeping, 1, left);
    sleeping->store(0, std::memory_order_relaxed);
  }
  budget->end(now_ns());
  return WaitResult::kReady;
}

// Wakes a waiter after `dead` was set. Without looking first: a hostile peer may have cleared the
// word.
inline void wake_sleeper(const Bell& bell, std::atomic<uint32_t>* sleeping) {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: wait_for
  sleeping->store(0, std::memory_order_relaxed);
  bell.wake_own(sleeping);
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_DOORBELL_H_
