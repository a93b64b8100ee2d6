// The guest's end of the ring: records are written in place.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_PRODUCER_H_
#define VGPU_PROTOCOL_RING_PRODUCER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/layout.h"
#include "protocol/ring/record.h"
#include "protocol/transport/mover.h"

namespace vgpu::protocol {

// reserve, write, commit: no allocation, no lock, no system call unless the worker sleeps or the
// ring is full. Not thread-safe: the caller holds the channel's lock from reserve to commit.
// mark_dead() alone may be called from any thread.
class Producer {
 public:
  explicit Producer(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive,
                    Mover* mover = nullptr);
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  // Room for one record of `bytes` (header included; rounded up to 16). Waits while the ring is
  // full. Null when the channel is dead or bytes is 0 or more than kRecordBytesMax. The caller
  // writes header and body and calls commit; a second reserve drops the first.
  std::byte* reserve(uint32_t bytes) {
    const uint32_t rounded = round_up_to_record(bytes);
    const uint64_t place = tail_ & mask_;
    // One comparison each: fits before the end of the ring; fits before the oldest record; not
    // absurd.
    if (bytes - 1 < kRecordBytesMax && place + rounded <= ring_bytes_ &&
        tail_ + rounded - head_seen_ <= ring_bytes_) [[likely]] {
      reserved_ = rounded;
      return ring_ + place;
    }
    return reserve_slow(bytes);
  }

  // Makes the reserved record part of the channel and tells the worker. Returns its sequence
  // number.
  uint64_t commit() {
    const uint64_t sequence = commit_quietly();
    publish();
    return sequence;
  }

  // The same for a record whose answer the calling thread then waits for: who waits also sends.
  uint64_t commit_awaited() {
    if (mover_ == nullptr) [[likely]]
      return commit();
    const uint64_t sequence = commit_quietly();
    publish_tail();
    return sequence;
  }

  // The same, but the worker does not see it until publish() (or until the ring is full): for
  // batches.
  uint64_t commit_quietly() {
    tail_ += reserved_;
    reserved_ = 0;
    prefetch_for_write(ring_ + ((tail_ + kPrefetchBytes) & mask_));
    prefetch_for_write(ring_ + ((tail_ + kPrefetchBytes + kCacheLineBytes) & mask_));
    return ++sequence_;
  }

  void publish() {
    publish_tail();
    if (mover_ != nullptr) [[unlikely]] {
      mover_->published();
    } else {
      ring_doorbell(bell_, &header_->consumer_sleep.sleeping);
    }
  }

  // Sequence number of the newest committed record; 0 before the first.
  uint64_t sequence() const { return sequence_; }
  // Bytes of the ring that records have taken so far.
  uint64_t written() const { return tail_; }

  // Ends every wait in reserve() with null, now and for good. Thread-safe.
  void mark_dead();
  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  void publish_tail() {
    publish_cpu(&header_->tail.cpu);
    header_->tail.position.store(tail_, std::memory_order_release);  // partner: Consumer's acquire
  }
  std::byte* reserve_slow(uint32_t bytes);
  bool wait_for_room(uint64_t bytes);
  bool refresh_head();

  ChannelHeader* header_;
  Mover* mover_;
  std::byte* ring_;
  uint64_t ring_bytes_;
  uint64_t mask_;
  uint64_t tail_ = 0;       // private truth; header_->tail is only its publication
  uint64_t head_seen_ = 0;  // last head that was read and believed
  uint64_t sequence_ = 0;
  uint32_t reserved_ = 0;
  const Bell bell_;
  SpinBudget spin_;
  std::atomic<bool> dead_{false};
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_PRODUCER_H_
