// Space in the up-slab: a first-in-first-out ring of pieces, retired by sequence number.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_STAGING_H_
#define VGPU_PROTOCOL_RING_STAGING_H_

#include <cstdint>
#include <vector>

#include "protocol/limits.h"

namespace vgpu::protocol {

// Belongs to the guest; the worker only sees offsets. Private memory, no atomics: the caller holds
// the channel's lock. Allocates nothing after construction.
//
//   allocate, copy in, write the record, bind(ticket, sequence);
//   retire_through(value(kSlabRetired))
//
// Space comes back in the order in which it was given: a piece that is not yet free holds back
// those behind it. Low offsets are used again as soon as they are free, so that what streams
// through the slab stays in the caches and touches few pages.
class Staging {
 public:
  struct Piece {
    uint64_t offset = 0;  // in the slab; a multiple of kStagingAlignBytes
    uint64_t ticket = 0;  // for release(); 0 = there was no room
    bool ok() const { return ticket != 0; }
  };

  explicit Staging(uint64_t slab_bytes);

  // `bytes` in one piece, or no room: then retire something and try again, or give up when bytes >
  // bytes_max().
  Piece allocate(uint64_t bytes);

  // The piece belongs to the record with this sequence number.
  void bind(uint64_t ticket, uint64_t sequence);

  // Frees the pieces of all records up to `sequence`.
  void retire_through(uint64_t sequence);

  // Frees one piece that no record reads.
  void release(uint64_t ticket);

  // The record whose retirement frees space next; 0 when the oldest piece is not bound (it waits
  // for bind or release) and when there is none.
  uint64_t oldest_sequence() const;

  bool empty() const { return first_ticket_ == next_ticket_; }
  // The largest single piece that can ever be had.
  uint64_t bytes_max() const { return slab_bytes_; }

 private:
  struct Entry {
    uint64_t end = 0;       // position behind the piece; positions count bytes and never wrap
    uint64_t sequence = 0;  // 0 = not bound
    bool released = false;
  };

  Entry& entry(uint64_t ticket) { return entries_[ticket % kStagingEntriesMax]; }
  const Entry& entry(uint64_t ticket) const { return entries_[ticket % kStagingEntriesMax]; }
  void pop_free(uint64_t through_sequence);

  uint64_t slab_bytes_;
  uint64_t head_ = 0;  // position of the oldest byte in use
  uint64_t tail_ = 0;  // position behind the newest
  uint64_t first_ticket_ = 1;
  uint64_t next_ticket_ = 1;
  std::vector<Entry> entries_;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_STAGING_H_
