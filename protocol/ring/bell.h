// How one side of a channel sleeps until its peer has something, and how it wakes a peer that
// sleeps. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_BELL_H_
#define VGPU_PROTOCOL_RING_BELL_H_

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace vgpu::protocol {

// Who is woken, and who has to look for himself when he has spun long enough. Chosen at attach, the
// same for both sides (docs/vm.md).
enum class BellKind : uint8_t {
  kFutex = 0,     // both sides under one kernel: futexes on the shared words
  kPolled = 1,    // two kernels and nothing between them but memory: both look again after naps
  kHostRung = 2,  // the guest can interrupt the host; its own threads take naps
  kRung = 3,      // an interrupt each way
};

// A value; what it points to is borrowed and outlives the channel. Thread-safe.
class Bell {
 public:
  // Futexes on the words themselves.
  Bell() = default;
  // A guest whose peer is under another kernel. Futexes do not work on the memory of a PCI device:
  // its threads sleep on `epoch`, in memory of the guest's own, which whoever takes the device's
  // interrupt raises and wakes; null: they take naps. The worker is woken by writing `value` to the
  // device's register `doorbell`; null: it takes naps.
  static Bell of_guest(std::atomic<uint32_t>* epoch, volatile uint32_t* doorbell, uint32_t value) {
    Bell bell;
    bell.sleep_ = epoch != nullptr ? Sleep::kEpoch : Sleep::kNap;
    bell.ring_ = doorbell != nullptr ? Ring::kRegister : Ring::kNothing;
    bell.epoch_ = epoch;
    bell.doorbell_ = doorbell;
    bell.value_ = value;
    return bell;
  }
  // Its worker. `woken`: a relay wakes it by futex when the guest rings; else it takes naps.
  // `event`: an eventfd, the guest's interrupt; negative: the guest takes naps.
  static Bell of_worker(bool woken, int event) {
    Bell bell;
    bell.sleep_ = woken ? Sleep::kFutex : Sleep::kNap;
    bell.ring_ = event >= 0 ? Ring::kEvent : Ring::kNothing;
    bell.event_ = event;
    return bell;
  }

  // Whether the peer runs under another kernel: then its CPU numbers mean nothing here.
  bool remote() const { return ring_ != Ring::kFutex; }

  // Sleeps while *word == expected, at most timeout_ns (< 0: without limit). May return early, as
  // futex_wait: the caller checks its condition again.
  void wait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) const;
  // After the word was changed: wakes the peer's threads that wait for it.
  void wake_peer(std::atomic<uint32_t>* word) const;
  // The same for threads of this process.
  void wake_own(std::atomic<uint32_t>* word) const;

 private:
  enum class Sleep : uint8_t { kFutex, kNap, kEpoch };
  enum class Ring : uint8_t { kFutex, kNothing, kRegister, kEvent };

  Sleep sleep_ = Sleep::kFutex;
  Ring ring_ = Ring::kFutex;
  std::atomic<uint32_t>* epoch_ = nullptr;
  volatile uint32_t* doorbell_ = nullptr;
  uint32_t value_ = 0;
  int event_ = -1;
};

// The length of the next nap of a waiter that has waited for `waited_ns`: an eighth of that, so
// that a wait becomes longer by an eighth at most, within kNapNsMin and kNapNsMax.
int64_t nap_ns(int64_t waited_ns);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_BELL_H_
