// Slot allocation, waiting and answering.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/reply.h"

#include <bit>
#include <cstring>

#include "protocol/ring/semaphore.h"

namespace vgpu::protocol {
namespace {

constexpr int32_t kUnknownError = 999;  // CUDA_ERROR_UNKNOWN

}  // namespace

ReplyPool::ReplyPool(const ChannelView& view, SpinMode spin, Mover* mover)
    : slots_(view.replies()),
      worker_cpu_(&view.header()->head.cpu),
      bell_(view.bell()),
      spin_(spin_mode(spin, bell_)),
      mover_(mover) {
  for (SpinBudget& budget : budgets_) budget = SpinBudget(spin_);
}

uint32_t ReplyPool::try_acquire() {
  for (uint32_t word = 0; word < kWords; ++word) {
    uint64_t taken = taken_[word].load(std::memory_order_relaxed);
    while (taken != ~uint64_t{0}) {
      const int bit = std::countr_one(taken);
      // acquire: partner is the release of the slot's previous owner.
      if (taken_[word].compare_exchange_weak(taken, taken | (uint64_t{1} << bit),
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        return word * 64 + static_cast<uint32_t>(bit);
      }
    }
  }
  return kNoReply;
}

uint32_t ReplyPool::acquire() {
  for (;;) {
    if (dead()) return kNoReply;
    uint32_t slot = try_acquire();
    if (slot == kNoReply) [[unlikely]] {
      queued_.fetch_add(1, std::memory_order_seq_cst);  // partner: release()
      const uint32_t seen = released_.load(std::memory_order_seq_cst);
      slot = try_acquire();
      if (slot == kNoReply && !dead()) futex_wait(&released_, seen, -1);
      queued_.fetch_sub(1, std::memory_order_relaxed);
      if (slot == kNoReply) continue;
    }
    slots_[slot].state.store(kReplyArmed, std::memory_order_relaxed);
    return slot;
  }
}

WaitResult ReplyPool::wait(uint32_t slot_index, Reply* reply, int64_t timeout_ns) {
  ReplySlot& slot = slots_[slot_index];
  // acquire: partner is the exchange in ReplyWriter::complete.
  const auto done = [&] { return slot.state.load(std::memory_order_acquire) == kReplyDone; };
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  auto over = [&] { return done() || dead_.load(std::memory_order_relaxed); };
  const MovedWait moved(mover_, over);
  if (mover_ == nullptr && !done())
    spin_until(&budgets_[slot_index], *worker_cpu_, dead_, deadline, done);
  const bool sleeps = !done();
  while (!done()) {
    uint32_t state = kReplyArmed;
    slot.state.compare_exchange_strong(state, kReplySleeping, std::memory_order_seq_cst);
    if (done()) break;
    // Order: state = sleeping, then dead_; mark_dead: dead_, then state. One of the two sees the
    // other.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (dead()) return WaitResult::kDead;
    const int64_t left = timeout_ns < 0 ? -1 : deadline - now_ns();
    if (timeout_ns >= 0 && left <= 0) return WaitResult::kTimeout;
    bell_.wait(&slot.state, kReplySleeping, left);
  }
  if (sleeps) budgets_[slot_index].end(now_ns());
  reply->result = slot.result;
  const uint32_t bytes = slot.payload_bytes;  // read once
  reply->payload_bytes = bytes <= kReplyPayloadBytesMax ? bytes : 0;
  std::memcpy(reply->payload, slot.payload, reply->payload_bytes);
  slot.state.store(kReplyArmed, std::memory_order_relaxed);  // published by the next commit
  return WaitResult::kReady;
}

void ReplyPool::release(uint32_t slot) {
  taken_[slot / 64].fetch_and(~(uint64_t{1} << (slot % 64)), std::memory_order_seq_cst);
  // Partner: acquire() counts itself in queued_ before its second look at taken_.
  if (queued_.load(std::memory_order_seq_cst) != 0) {
    released_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(&released_, 1);
  }
}

void ReplyPool::mark_dead() {
  dead_.store(true, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < kReplySlots; ++i) {
    // A sleeper finds another word than it expects, or is woken; it looks at dead_ either way.
    uint32_t state = kReplySleeping;
    slots_[i].state.compare_exchange_strong(state, kReplyArmed, std::memory_order_seq_cst);
    bell_.wake_own(&slots_[i].state);
  }
  released_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(&released_);
}

void ReplyWriter::complete(uint32_t slot_index, int32_t result,
                           std::span<const std::byte> payload) {
  if (slot_index >= kReplySlots) return;
  ReplySlot& slot = slots_[slot_index];
  const bool fits = payload.size() <= kReplyPayloadBytesMax;
  slot.result = fits ? result : kUnknownError;
  slot.payload_bytes = fits ? static_cast<uint32_t>(payload.size()) : 0;
  if (fits && !payload.empty()) std::memcpy(slot.payload, payload.data(), payload.size());
  // release: publishes the lines above. The old value says whether the thread sleeps.
  const uint32_t before = slot.state.exchange(kReplyDone, std::memory_order_acq_rel);
  if (before == kReplySleeping) bell_.wake_peer(&slot.state);
  if (before == kReplyWatched) wake_waiters(waiters_);
}

}  // namespace vgpu::protocol
