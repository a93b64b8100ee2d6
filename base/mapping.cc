// mmap and munmap behind Mapping.
// SPDX-License-Identifier: Apache-2.0
#include "base/mapping.h"

#include <sys/mman.h>

#include <cerrno>

namespace vgpu {
namespace {

Result<Mapping> map(int fd, size_t bytes, int flags, uint64_t offset = 0,
                    int protection = PROT_READ | PROT_WRITE) {
  void* data = ::mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return Status::from_errno(errno, "mmap");
  return Mapping(data, bytes);
}

}  // namespace

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

Result<Mapping> Mapping::map_shared(int fd, size_t bytes, uint64_t offset) {
  return map(fd, bytes, MAP_SHARED, offset);
}

Result<Mapping> Mapping::map_shared_read_only(int fd, size_t bytes) {
  return map(fd, bytes, MAP_SHARED, 0, PROT_READ);
}

Result<Mapping> Mapping::map_private(size_t bytes) {
  return map(-1, bytes, MAP_PRIVATE | MAP_ANONYMOUS);
}

void Mapping::reset() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace vgpu
