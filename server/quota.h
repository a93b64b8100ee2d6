// How much device memory a guest may hold, and how much it does.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_QUOTA_H_
#define VGPU_SERVER_QUOTA_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace vgpu::server {

// Arithmetic that cannot overflow. Thread-safe; the limit may be set while others take. Whoever
// sets a limit and then reads used() sees all that was taken under the earlier one: take() first
// says what it takes and then looks at the limit, both sequentially consistent.
class Quota {
 public:
  explicit Quota(uint64_t limit_bytes) : limit_(limit_bytes) {}
  // Takes `bytes`, or takes nothing and returns false when that is more than is left.
  bool take(uint64_t bytes) {
    uint64_t before = used_.load(std::memory_order_relaxed), after = 0;
    do {
      if (__builtin_add_overflow(before, bytes, &after) || after > limit_.load()) return false;
    } while (!used_.compare_exchange_weak(before, after));
    if (after <= limit_.load()) return true;
    give(bytes);
    return false;
  }
  void give(uint64_t bytes) {
    uint64_t used = used_.load(std::memory_order_relaxed);
    while (!used_.compare_exchange_weak(used, used - std::min(bytes, used))) {
    }
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

// Bytes of a quota that memory takes for as long as somebody holds this: the guest by a handle or a
// mapping, or what others are given of it, whichever goes last. Thread-safe.
class Charge {
 public:
  using Returns = std::shared_ptr<std::atomic<uint64_t>>;  // where the bytes go then
  Charge(Returns returns, uint64_t bytes) : returns_(std::move(returns)), bytes_(bytes) {}
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  // release: partner is DeviceMemory::collect(); the driver has the memory again.
  ~Charge() { returns_->fetch_add(bytes_, std::memory_order_release); }
  uint64_t bytes() const { return bytes_; }

 private:
  const Returns returns_;
  const uint64_t bytes_;
};
using Charges = std::vector<std::shared_ptr<Charge>>;

}  // namespace vgpu::server

#endif  // VGPU_SERVER_QUOTA_H_
