// A rate with a burst: how caps and minimums are kept.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SCHEDULER_TOKEN_BUCKET_H_
#define VGPU_SCHEDULER_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstdint>

#include "scheduler/policy.h"

namespace vgpu::scheduler {

// Tokens are nanoseconds of device time. They come in at rate_permille of real time, up to a burst,
// and may fall below zero: what is in debt must wait until it is paid. Not thread-safe.
class TokenBucket {
 public:
  // `burst_ns`: what may be kept, in device time.
  TokenBucket(uint32_t rate_permille, uint64_t burst_ns, uint64_t now)
      : rate_(rate_permille), burst_(static_cast<int64_t>(burst_ns)), filled_at_(now) {}

  void set_rate(uint32_t rate_permille) { rate_ = rate_permille; }
  void fill(uint64_t now) {
    if (now <= filled_at_) return;
    const uint64_t passed = std::min(now - filled_at_, kPassedMax);
    rest_ += passed * rate_;
    filled_at_ = now;
    tokens_ = std::min(tokens_ + static_cast<int64_t>(rest_ / kPermille), burst_);
    rest_ %= kPermille;
  }
  // Takes, or with a negative number gives back.
  void charge(int64_t ns) { tokens_ = std::min(tokens_ - ns, burst_); }
  // Forgets what was kept until now. What is owed is still owed.
  void drop_credit(uint64_t now) {
    fill(now);
    tokens_ = std::min<int64_t>(tokens_, 0);
  }
  // As of the last fill().
  int64_t tokens() const { return tokens_; }
  // When there will be at least `wanted`; kNever: at no time.
  uint64_t ready_at(int64_t wanted) const {
    if (tokens_ >= wanted) return filled_at_;
    if (rate_ == 0 || wanted > burst_) return kNever;
    const auto missing = static_cast<uint64_t>(wanted - tokens_);
    return filled_at_ + (missing * kPermille + rate_ - 1) / rate_;
  }

 private:
  static constexpr uint64_t kPassedMax = 3'600'000'000'000;  // an hour fills every bucket

  uint32_t rate_;
  int64_t burst_;
  uint64_t filled_at_;
  int64_t tokens_ = 0;
  uint64_t rest_ = 0;  // thousandths of a token
};

}  // namespace vgpu::scheduler

#endif  // VGPU_SCHEDULER_TOKEN_BUCKET_H_
