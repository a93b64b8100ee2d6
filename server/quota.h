// How much device memory a guest may hold, and how much it does.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_QUOTA_H_
#define VGPU_SERVER_QUOTA_H_

#include <atomic>
#include <cstdint>

namespace vgpu::server {

// Arithmetic that cannot overflow. One thread takes and gives; the limit may be set, and everything
// read, by any. Whoever sets a limit and then reads used() sees all that was taken under the
// earlier one: take() first says what it takes and then looks at the limit, both sequentially
// consistent.
class Quota {
 public:
  explicit Quota(uint64_t limit_bytes) : limit_(limit_bytes) {}
  // Takes `bytes`, or takes nothing and returns false when that is more than is left.
  bool take(uint64_t bytes) {
    const uint64_t before = used_.load(std::memory_order_relaxed);
    uint64_t after = 0;
    if (__builtin_add_overflow(before, bytes, &after)) return false;
    used_.store(after);
    if (after <= limit_.load()) return true;
    used_.store(before);
    return false;
  }
  void give(uint64_t bytes) {
    const uint64_t before = used_.load(std::memory_order_relaxed);
    used_.store(before - (bytes < before ? bytes : before));
  }
  // Lower than what is used: nothing more can be taken until enough was given.
  void set_limit(uint64_t bytes) { limit_.store(bytes); }
  uint64_t limit() const { return limit_.load(); }
  uint64_t used() const { return used_.load(); }
  uint64_t left() const {
    const uint64_t limit = limit_.load(), used = used_.load();
    return used < limit ? limit - used : 0;
  }

 private:
  std::atomic<uint64_t> limit_;
  std::atomic<uint64_t> used_{0};
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_QUOTA_H_
