// Owner of one file descriptor.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_BASE_UNIQUE_FD_H_
#define VGPU_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace vgpu {

// Closes its descriptor when it ends. Movable only; not thread-safe. -1 means none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up to the caller.
  int release() { return std::exchange(fd_, -1); }
  // Closes what is held and holds `fd`. close() is not repeated on EINTR: Linux has closed it by
  // then.
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace vgpu

#endif  // VGPU_BASE_UNIQUE_FD_H_
