// Bytes behind a command: borrowed views, and the bounds check of offsets that a peer names.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_WIRE_BLOB_H_
#define VGPU_PROTOCOL_WIRE_BLOB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vgpu::protocol {

// Inline bytes of a record in the consumer's private memory: valid until its next peek.
struct Blob {
  std::span<const std::byte> bytes;

  size_t size() const { return bytes.size(); }
  bool empty() const { return bytes.empty(); }
  const std::byte* data() const { return bytes.data(); }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

// [offset, offset + bytes) of a slab, or nothing when that is not wholly inside. The bytes are peer
// memory: they may change at any time, so they may be handed to the driver as data, but whoever
// parses them copies them first.
inline std::optional<std::span<std::byte>> slab_range(std::span<std::byte> slab, uint64_t offset,
                                                      uint64_t bytes) {
  if (offset > slab.size() || bytes > slab.size() - offset) return std::nullopt;
  return slab.subspan(offset, bytes);
}

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_WIRE_BLOB_H_
