// The slow branches of the producer: the ring's end, and a full ring.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/producer.h"

#include <cstring>

namespace vgpu::protocol {

Producer::Producer(const ChannelView& view, SpinMode spin, Mover* mover)
    : header_(view.header()),
      mover_(mover),
      ring_(view.ring()),
      ring_bytes_(view.sizes().ring_bytes),
      mask_(view.sizes().ring_bytes - 1),
      bell_(view.bell()),
      spin_(spin_mode(spin, bell_)) {}

std::byte* Producer::reserve_slow(uint32_t bytes) {
  reserved_ = 0;
  if (bytes == 0 || bytes > kRecordBytesMax) return nullptr;
  const uint32_t rounded = round_up_to_record(bytes);
  const uint64_t to_end = ring_bytes_ - (tail_ & mask_);
  const uint64_t pad = rounded > to_end ? to_end : 0;
  if (!wait_for_room(pad + rounded)) return nullptr;
  if (pad != 0) {
    const RecordHeader header{static_cast<uint32_t>(pad), kPadOp, 0, 0, kNoReply};
    std::memcpy(ring_ + (tail_ & mask_), &header, sizeof(header));
    tail_ += pad;
  }
  reserved_ = rounded;
  return ring_ + (tail_ & mask_);
}

// Reads the worker's head once. A head that cannot be is not believed: the channel is dead, because
// nothing written after that could be trusted to arrive.
bool Producer::refresh_head() {
  const uint64_t head =
      header_->head.position.load(std::memory_order_acquire);  // partner: Consumer::publish_head
  if (head < head_seen_ || head > tail_) {
    mark_dead();
    return false;
  }
  head_seen_ = head;
  return true;
}

bool Producer::wait_for_room(uint64_t bytes) {
  if (!refresh_head()) return false;
  if (tail_ + bytes - head_seen_ <= ring_bytes_) return !dead();
  publish();  // what was committed quietly must be seen, or nobody would ever make room
  const uint64_t head_wanted = tail_ + bytes - ring_bytes_;
  auto room = [&] {
    return header_->head.position.load(std::memory_order_acquire) >= head_wanted ||
           dead_.load(std::memory_order_relaxed);
  };
  const MovedWait moved(mover_, room);
  const WaitResult result = wait_for(
      bell_, &header_->producer_sleep.sleeping, &spin_, header_->head.cpu, dead_, -1,
      [&] { return header_->head.position.load(std::memory_order_acquire) >= head_wanted; });
  return result == WaitResult::kReady && refresh_head();
}

void Producer::mark_dead() {
  dead_.store(true, std::memory_order_release);
  wake_sleeper(bell_, &header_->producer_sleep.sleeping);
}

}  // namespace vgpu::protocol
