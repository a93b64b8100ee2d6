// Copy, check, use.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/consumer.h"

#include <cstring>

namespace vgpu::protocol {

Consumer::Consumer(const ChannelView& view, SpinMode spin)
    : header_(view.header()),
      ring_(view.ring()),
      ring_bytes_(view.sizes().ring_bytes),
      bell_(view.bell()),
      spin_(spin_mode(spin, bell_)),
      scratch_(std::make_unique<Scratch>()) {}

PeekResult Consumer::malformed(const char* what, uint64_t value) {
  error_ = Status(StatusCode::kMalformed, "record " + std::to_string(sequence_ + 1) + ": " + what +
                                              " (" + std::to_string(value) + ")");
  return PeekResult::kMalformed;
}

// Reads the guest's tail once; everything afterwards uses the private copy. False = malformed.
bool Consumer::refresh_tail() {
  const uint64_t tail =
      header_->tail.position.load(std::memory_order_acquire);  // partner: Producer::publish
  // Also catches a tail that moved back: tail - head_ is then huge.
  if (tail - head_ > ring_bytes_ || tail < tail_seen_ || tail % kRecordAlignBytes != 0) {
    malformed("impossible tail", tail);
    return false;
  }
  tail_seen_ = tail;
  return true;
}

// What is wrong with a record's header, or null. tail_seen_ is the end of what may be read.
const char* Consumer::check_header(const RecordHeader& header) const {
  const uint64_t to_end = ring_bytes_ - (head_ & (ring_bytes_ - 1));
  if (header.bytes < sizeof(RecordHeader) || header.bytes % kRecordAlignBytes != 0) {
    return "record size is not a multiple of 16";
  }
  if (header.bytes > tail_seen_ - head_) return "record reaches beyond the tail";
  if (header.bytes > to_end) return "record wraps around the ring's end";
  if (header.op == kPadOp) return header.bytes == to_end ? nullptr : "pad does not end the ring";
  if (header.bytes > kRecordBytesMax) return "record larger than the limit";
  if (header.blob_bytes > header.bytes - sizeof(RecordHeader)) return "blob larger than its record";
  if (header.reply != kNoReply && header.reply >= kReplySlots) return "reply slot out of range";
  return nullptr;
}

PeekResult Consumer::peek(Record* record) {
  if (!error_.ok()) return PeekResult::kMalformed;
  for (;;) {
    if (head_ == tail_seen_) {
      if (!refresh_tail()) return PeekResult::kMalformed;
      if (head_ == tail_seen_) {
        publish_head();
        return PeekResult::kEmpty;
      }
    }
    const std::byte* source = ring_ + (head_ & (ring_bytes_ - 1));
    RecordHeader header;
    std::memcpy(&header, source, sizeof(header));  // the only read of the header
    // Keeps the compiler from reading shared memory a second time instead of keeping the copy.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (const char* what = check_header(header); what != nullptr) {
      return malformed(what, header.bytes);
    }
    if (header.op == kPadOp) {
      head_ += header.bytes;
      continue;
    }
    const uint32_t body_bytes = header.bytes - static_cast<uint32_t>(sizeof(RecordHeader));
    std::memcpy(scratch_->bytes, source + sizeof(RecordHeader), body_bytes);
    record->header = header;
    record->body = {scratch_->bytes, body_bytes};
    record->sequence = sequence_ + 1;
    peeked_ = header.bytes;
    answered_ = header.reply != kNoReply;
    return PeekResult::kRecord;
  }
}

void Consumer::release() {
  if (peeked_ == 0) return;
  head_ += peeked_;
  peeked_ = 0;
  ++sequence_;
  burst_ = answered_ ? 0 : burst_ + 1;
  // In batches: each publication costs a fence, and the guest looks only when its ring is full.
  if (head_ - head_published_ >= ring_bytes_ / 8) publish_head();
}

void Consumer::publish_head() {
  if (head_ == head_published_) return;
  head_published_ = head_;
  publish_cpu(&header_->head.cpu);
  header_->head.position.store(head_,
                               std::memory_order_release);  // partner: Producer::refresh_head
  ring_doorbell(bell_, &header_->producer_sleep.sleeping);
}

WaitResult Consumer::wait(int64_t timeout_ns) {
  publish_head();
  publish_cpu(&header_->head.cpu);
  const uint32_t peer = header_->tail.cpu.load(std::memory_order_relaxed);
  if (burst_ >= kBurstRecords && spin_.budget_ns(peer) != 0) pause_for(kBurstPauseNs);
  burst_ = 0;
  return wait_for(bell_, &header_->consumer_sleep.sleeping, &spin_, header_->tail.cpu, dead_,
                  timeout_ns, [&] {
                    return header_->tail.position.load(std::memory_order_acquire) != tail_seen_ ||
                           head_ != tail_seen_;
                  });
}

void Consumer::mark_dead() {
  dead_.store(true, std::memory_order_release);
  wake_sleeper(bell_, &header_->consumer_sleep.sleeping);
}

}  // namespace vgpu::protocol
