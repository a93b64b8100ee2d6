// Writing a command in place: header, fixed struct, inline blob.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_WIRE_ENCODER_H_
#define VGPU_PROTOCOL_WIRE_ENCODER_H_

#include <cstring>
#include <span>
#include <type_traits>

#include "protocol/ring/producer.h"
#include "protocol/ring/record.h"

namespace vgpu::protocol {

template <typename T>
constexpr uint32_t record_bytes(uint32_t blob_bytes) {
  return round_up_to_record(sizeof(RecordHeader) + sizeof(T) + uint64_t{blob_bytes});
}

// Reserves a record and writes header and struct. Returns the place for blob_bytes bytes of blob
// (never null for a live channel, even when there is no blob), which the caller fills before it
// commits; null when the channel is dead or the record too large. The caller holds the channel's
// lock.
template <typename T>
std::byte* begin_record(Producer* producer, uint16_t op, const T& args, uint32_t blob_bytes = 0,
                        uint32_t reply = kNoReply, uint16_t flags = 0) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kRecordAlignBytes);
  if (blob_bytes > kRecordBytesMax) return nullptr;
  std::byte* place = producer->reserve(record_bytes<T>(blob_bytes));
  if (place == nullptr) [[unlikely]]
    return nullptr;
  const RecordHeader header{record_bytes<T>(blob_bytes), op, flags, blob_bytes, reply};
  std::memcpy(place, &header, sizeof(header));
  std::memcpy(place + sizeof(header), &args, sizeof(args));
  return place + sizeof(header) + sizeof(args);
}

// A whole record: reserve, write, commit. Returns its sequence number, 0 when the channel is dead
// or the record too large.
template <typename T>
uint64_t write_record(Producer* producer, uint16_t op, const T& args,
                      std::span<const std::byte> blob = {}, uint32_t reply = kNoReply) {
  if (blob.size() > kRecordBytesMax) return 0;
  std::byte* place = begin_record(producer, op, args, static_cast<uint32_t>(blob.size()), reply);
  if (place == nullptr) return 0;
  if (!blob.empty()) std::memcpy(place, blob.data(), blob.size());
  return reply == kNoReply ? producer->commit() : producer->commit_awaited();
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_WIRE_ENCODER_H_
