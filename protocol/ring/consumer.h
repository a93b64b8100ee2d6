// The worker's end of the ring: copies, checks, and only then hands out.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_CONSUMER_H_
#define VGPU_PROTOCOL_RING_CONSUMER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "protocol/ring/doorbell.h"
#include "protocol/ring/layout.h"
#include "protocol/ring/record.h"

namespace vgpu::protocol {

enum class PeekResult : uint8_t {
  kRecord,     // *record is filled
  kEmpty,      // nothing published; wait()
  kMalformed,  // the peer broke the rules: error() says how; every later peek says the same
};

// Trusts nothing in shared memory but what it has copied and checked. Not thread-safe: one consumer
// thread. mark_dead() alone may be called from any thread.
class Consumer {
 public:
  explicit Consumer(const ChannelView& view, SpinMode spin = SpinMode::kAdaptive);
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  // Copies the oldest record into private memory. Never waits. The record stays valid until the
  // next peek.
  PeekResult peek(Record* record);

  // Gives the space of the peeked record back. What the guest sees of it may come a little later
  // (in batches, at the latest when peek finds nothing more).
  void release();

  // Waits until something is published, mark_dead(), or timeout_ns (< 0: no limit). Idle costs no
  // CPU. In a burst of records that nobody waits for it takes at least kBurstPauseNs.
  WaitResult wait(int64_t timeout_ns = -1);

  // Sequence number of the newest record released; 0 before the first.
  uint64_t sequence() const { return sequence_; }
  const Status& error() const { return error_; }

  // Ends every wait, now and for good. Thread-safe. Records already published may still be peeked.
  void mark_dead();
  bool dead() const { return dead_.load(std::memory_order_acquire); }

 private:
  PeekResult malformed(const char* what, uint64_t value);
  bool refresh_tail();
  const char* check_header(const RecordHeader& header) const;
  void publish_head();

  struct alignas(kCacheLineBytes) Scratch {
    std::byte bytes[kRecordBytesMax];
  };

  ChannelHeader* header_;
  std::byte* ring_;
  uint64_t ring_bytes_;
  uint64_t head_ = 0;  // private truth; header_->head is only its publication
  uint64_t head_published_ = 0;
  uint64_t tail_seen_ = 0;  // last tail that was read and checked
  uint64_t sequence_ = 0;
  uint32_t peeked_ = 0;    // bytes of the record that release() gives back
  bool answered_ = false;  // it wants an answer
  uint32_t burst_ = 0;     // records released since the last wait or answer
  Status error_;
  const Bell bell_;
  SpinBudget spin_;
  std::atomic<bool> dead_{false};
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_CONSUMER_H_
