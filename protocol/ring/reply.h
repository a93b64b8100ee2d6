// Reply slots: how a waiting guest thread gets its answer.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_REPLY_H_
#define VGPU_PROTOCOL_RING_REPLY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/layout.h"
#include "protocol/ring/record.h"
#include "protocol/transport/mover.h"

namespace vgpu::protocol {

// ReplySlot::state. The guest moves it to kArmed and kSleeping, the worker to kDone. kWatched:
// armed by one who waits for many slots at once, and is woken as those who wait for semaphores are.
enum ReplyState : uint32_t {
  kReplyFree = 0,
  kReplyArmed = 1,
  kReplySleeping = 2,
  kReplyDone = 3,
  kReplyWatched = 4
};

// A private copy of an answer.
struct Reply {
  int32_t result = 0;  // CUresult of the driver
  uint32_t payload_bytes = 0;
  alignas(8) std::byte payload[kReplyPayloadBytesMax];

  // Copies the payload into *out when it has exactly that size.
  template <typename T>
  bool get(T* out) const {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kReplyPayloadBytesMax);
    if (payload_bytes != sizeof(T)) return false;
    __builtin_memcpy(out, payload, sizeof(T));
    return true;
  }
};

// Guest side: hands the slots to threads and waits on them. Thread-safe, lock-free as long as a
// slot is free.
//   slot = acquire();  write a record with reply = slot, commit;  wait(slot, &reply); release(slot)
class ReplyPool {
 public:
  explicit ReplyPool(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive,
                     Mover* mover = nullptr);
  ReplyPool(const ReplyPool&) = delete;
  ReplyPool& operator=(const ReplyPool&) = delete;

  // A slot, armed for one answer. Waits when all are taken. kNoReply when the channel is dead.
  uint32_t acquire();

  // Waits for the answer to the one record that names `slot`. kReady: *reply is filled and the slot
  // is armed again (so that one slot may serve many calls). kDead or kTimeout: no answer; after a
  // time-out the slot must not be used again nor released, as the answer may still come.
  WaitResult wait(uint32_t slot, Reply* reply, int64_t timeout_ns = -1);

  // Gives a slot back whose answer was waited for, or that was never named in a record.
  void release(uint32_t slot);

  // Ends all waits, now and for good.
  void mark_dead();
  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  static constexpr uint32_t kWords = kReplySlots / 64;
  static_assert(kReplySlots % 64 == 0);

  uint32_t try_acquire();

  ReplySlot* slots_;
  const std::atomic<uint32_t>* worker_cpu_;
  const Bell bell_;
  SpinMode spin_;
  Mover* mover_;
  std::atomic<uint64_t> taken_[kWords] = {};
  std::atomic<uint32_t> released_{
      0};                            // futex word of threads that wait for a slot: counts releases
  std::atomic<uint32_t> queued_{0};  // how many do
  std::atomic<bool> dead_{false};
  SpinBudget budgets_[kReplySlots];  // each used only by the thread that owns the slot
};

// Worker side. Thread-safe for different slots. Bytes beyond kReplyPayloadBytesMax are a bug of the
// caller: the answer is then CUDA_ERROR_UNKNOWN without payload.
class ReplyWriter {
 public:
  explicit ReplyWriter(const ChannelView& view)
      : slots_(view.replies()), waiters_(&view.semaphores()->waiters), bell_(view.bell()) {}
  // Answers slot `slot`, once per record that names it. kNoReply is ignored.
  void complete(uint32_t slot, int32_t result, std::span<const std::byte> payload = {});
  template <typename T>
  void complete_with(uint32_t slot, int32_t result, const T& payload) {
    complete(slot, result, std::as_bytes(std::span<const T, 1>(&payload, 1)));
  }

 private:
  ReplySlot* slots_;
  WaitersLine* waiters_;
  const Bell bell_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_REPLY_H_
