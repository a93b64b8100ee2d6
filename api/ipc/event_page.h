// Events that several processes record and wait for: a page that all of them have. The same for
// workers and for the software GPU.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_API_IPC_EVENT_PAGE_H_
#define VGPU_API_IPC_EVENT_PAGE_H_

#include <atomic>
#include <cstdint>

#include "base/futex.h"

namespace vgpu {

// Lies in a zeroed page. Records are numbered, in a circle of 2^32; the event is past when the
// newest is. Streams wait for `completed` by memory operations, threads by a futex. Lock-free: who
// is killed leaves nothing behind but a record that never finishes, which others finish for it.
struct EventPage {
  static constexpr uint64_t kMagic = 0x766770'6576'0001;
  uint64_t magic;
  std::atomic<uint32_t> recorded;   // newest record
  std::atomic<uint32_t> completed;  // newest that is past
  std::atomic<uint32_t> recorder;   // who made the newest
  std::atomic<uint32_t> joined;     // participants so far, but the first

  // Whether `number` is not behind `reached`, on the circle.
  static bool reaches(uint32_t reached, uint32_t number) {
    return static_cast<int32_t>(reached - number) >= 0;
  }
  // acquire: partner is begin().
  uint32_t newest() const { return recorded.load(std::memory_order_acquire); }
  // acquire: partner is finish(); what was done before the record is seen.
  bool passed(uint32_t number) const {
    return reaches(completed.load(std::memory_order_acquire), number);
  }
  bool passed() const { return passed(newest()); }

  // A record is on its way; its number.
  uint32_t begin(uint32_t who) {
    recorder.store(who, std::memory_order_relaxed);
    // release: whoever sees the number sees who made it, but for another's record in between.
    return recorded.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  // It is past.
  void finish(uint32_t number) {
    uint32_t seen = completed.load(std::memory_order_relaxed);
    while (!reaches(seen, number) &&
           !completed.compare_exchange_weak(seen, number, std::memory_order_release)) {
    }
    (void)futex_wake_all(&completed);
  }
  // Nobody waits for the dead: what they recorded last counts as past.
  void gone(uint32_t who) {
    const uint32_t number = newest();
    if (recorder.load(std::memory_order_acquire) == who) finish(number);
  }
  // Sleeps at most so long (< 0: without limit). Whether `number` is past.
  bool wait(uint32_t number, int64_t timeout_ns) {
    while (true) {
      const uint32_t seen = completed.load(std::memory_order_acquire);
      if (reaches(seen, number)) return true;
      if (!futex_wait_changed(&completed, seen, timeout_ns)) return false;
    }
  }
};

}  // namespace vgpu

#endif  // VGPU_API_IPC_EVENT_PAGE_H_
