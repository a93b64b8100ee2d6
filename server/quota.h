// How much device memory a guest may hold, and how much it does.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_QUOTA_H_
#define VGPU_SERVER_QUOTA_H_

#include <cstdint>

namespace vgpu::server {

// Plain arithmetic that cannot overflow. Not thread-safe.
class Quota {
 public:
  explicit Quota(uint64_t limit_bytes) : limit_(limit_bytes) {}
  // Takes `bytes`, or takes nothing and returns false when that is more than is left.
  bool take(uint64_t bytes) {
    if (bytes > limit_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void give(uint64_t bytes) { used_ -= bytes < used_ ? bytes : used_; }
  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_; }
  uint64_t left() const { return limit_ - used_; }

 private:
  uint64_t limit_;
  uint64_t used_ = 0;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_QUOTA_H_
