// Owner of one mmap()ed range.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_MAPPING_H_
#define VGPU_BASE_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"

namespace vgpu {

// Unmaps its range when it ends. Movable only; the range itself may be used from any thread.
class Mapping {
 public:
  Mapping() = default;
  // Takes over a range that mmap returned.
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { reset(); }

  // Maps `bytes` of descriptor `fd` from `offset` (whole pages), shared, readable and writable.
  static Result<Mapping> map_shared(int fd, size_t bytes, uint64_t offset = 0);
  // From its start, readable only.
  static Result<Mapping> map_shared_read_only(int fd, size_t bytes);
  // Fresh private zeroed memory.
  static Result<Mapping> map_private(size_t bytes);

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return bytes_; }
  bool valid() const { return data_ != nullptr; }
  std::span<std::byte> bytes() const { return {data(), bytes_}; }
  // Unmaps now.
  void reset();
  // Gives the range up to the caller, who unmaps it.
  void* release() {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace vgpu

#endif  // VGPU_BASE_MAPPING_H_
