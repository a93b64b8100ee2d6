// Reading a command out of a record that the consumer has copied.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_WIRE_DECODER_H_
#define VGPU_PROTOCOL_WIRE_DECODER_H_

#include <cstring>
#include <type_traits>

#include "protocol/ring/record.h"
#include "protocol/wire/blob.h"

namespace vgpu::protocol {

// Whether a record is exactly as long as a struct of `args_bytes` and its blob make it. The only
// length that is right.
bool record_size_ok(const Record& record, size_t args_bytes);

// Fills *args and *blob (a view into the record). False = malformed: the session ends. Never reads
// beyond the record.
template <typename T>
bool decode(const Record& record, T* args, Blob* blob) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!record_size_ok(record, sizeof(T))) return false;
  std::memcpy(static_cast<void*>(args), record.body.data(), sizeof(T));
  blob->bytes = record.body.subspan(sizeof(T), record.header.blob_bytes);
  return true;
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_WIRE_DECODER_H_
