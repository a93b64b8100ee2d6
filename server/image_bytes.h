// Bytes that a guest sends for the driver: code, inputs of a link, graphs.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_IMAGE_BYTES_H_
#define VGPU_SERVER_IMAGE_BYTES_H_

#include <sys/mman.h>

#include <cstdint>
#include <span>

#include "base/mapping.h"

namespace vgpu::server {

// Pages of their own: hundreds of megabytes are neither cleared first nor moved later, and what is
// not written yet takes no memory. Behind the bytes stand kTail zeros, since PTX text may come
// without its NUL.
class ImageBytes {
 public:
  static constexpr size_t kTail = 8;

  static constexpr size_t kLargeBytes = 4u << 20;

  ImageBytes() = default;
  // False: no memory.
  bool make(size_t bytes) {
    Result<Mapping> memory = Mapping::map_private(bytes + kTail);
    if (!memory.ok()) return false;
    memory_ = std::move(memory).value();
    // Large pages: most of the time would go into faults. A refusal changes nothing.
    if (bytes >= kLargeBytes) (void)::madvise(memory_.data(), memory_.size(), MADV_HUGEPAGE);
    bytes_ = bytes;
    return true;
  }
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(memory_.data()); }
  size_t size() const { return bytes_; }
  std::span<const std::byte> bytes() const { return {memory_.data(), bytes_}; }

 private:
  Mapping memory_;
  size_t bytes_ = 0;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_IMAGE_BYTES_H_
