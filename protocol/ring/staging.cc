// The first-in-first-out slab allocator.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/staging.h"

namespace vgpu::protocol {

Staging::Staging(uint64_t slab_bytes)
    : slab_bytes_(slab_bytes - slab_bytes % kStagingAlignBytes), entries_(kStagingEntriesMax) {}

Staging::Piece Staging::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > slab_bytes_) return {};
  if (next_ticket_ - first_ticket_ == kStagingEntriesMax) return {};
  if (empty()) head_ = tail_ = 0;  // so that the largest piece fits whenever nothing is in flight
  const uint64_t rounded = (bytes + kStagingAlignBytes - 1) & ~uint64_t{kStagingAlignBytes - 1};
  uint64_t start = tail_;
  const uint64_t place = start % slab_bytes_;
  const uint64_t next_lap = start - place + slab_bytes_;
  const bool low_is_free = next_lap + rounded - head_ <= slab_bytes_;
  if (place + rounded > slab_bytes_ || (place >= kStagingWarmBytes && low_is_free))
    start = next_lap;
  if (start + rounded - head_ > slab_bytes_) return {};
  tail_ = start + rounded;
  const uint64_t ticket = next_ticket_++;
  entry(ticket) = Entry{tail_, 0, false};
  return Piece{start % slab_bytes_, ticket};
}

void Staging::bind(uint64_t ticket, uint64_t sequence) {
  if (ticket >= first_ticket_ && ticket < next_ticket_) entry(ticket).sequence = sequence;
}

void Staging::pop_free(uint64_t through_sequence) {
  while (first_ticket_ != next_ticket_) {
    const Entry& oldest = entry(first_ticket_);
    const bool retired = oldest.sequence != 0 && oldest.sequence <= through_sequence;
    if (!retired && !oldest.released) return;
    head_ = oldest.end;
    ++first_ticket_;
  }
}

void Staging::retire_through(uint64_t sequence) { pop_free(sequence); }

void Staging::release(uint64_t ticket) {
  if (ticket < first_ticket_ || ticket >= next_ticket_) return;
  entry(ticket).released = true;
  pop_free(0);
}

uint64_t Staging::oldest_sequence() const { return empty() ? 0 : entry(first_ticket_).sequence; }

}  // namespace vgpu::protocol
