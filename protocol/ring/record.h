// Header of one command record in the ring.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_RECORD_H_
#define VGPU_PROTOCOL_RING_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "protocol/limits.h"

namespace vgpu::protocol {

// A record is: header, the command's fixed struct, its inline blob, zero to fifteen bytes of
// nothing up to a multiple of 16. It starts at a multiple of 16 and never wraps: a pad record (op
// 0) fills the end of the ring, and the record begins at its start.
struct RecordHeader {
  uint32_t bytes;       // of the whole record, this header included; a multiple of 16
  uint16_t op;          // number of the command; kPadOp = skip
  uint16_t flags;       // of the command; 0 unless it defines some
  uint32_t blob_bytes;  // inline blob right behind the struct
  uint32_t reply;       // slot that waits for the answer, or kNoReply
};
static_assert(sizeof(RecordHeader) == 16 && alignof(RecordHeader) == 4);
static_assert(offsetof(RecordHeader, op) == 4 && offsetof(RecordHeader, flags) == 6);
static_assert(offsetof(RecordHeader, blob_bytes) == 8 && offsetof(RecordHeader, reply) == 12);

inline constexpr uint16_t kPadOp = 0;
inline constexpr uint32_t kNoReply = 0xffffffff;

constexpr uint32_t round_up_to_record(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kRecordAlignBytes - 1) & ~uint64_t{kRecordAlignBytes - 1});
}

// One record in private memory of the consumer: peer memory is out of the game once it exists.
// Sizes are checked: body holds header.bytes - 16 bytes and blob_bytes is not more than that. Valid
// until the consumer's next peek().
struct Record {
  RecordHeader header{};
  uint64_t sequence = 0;            // ordinal in the channel; the first is 1; pads do not count
  std::span<const std::byte> body;  // behind the header, 16-byte aligned
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_RECORD_H_
