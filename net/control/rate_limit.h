// How often each of many may do something: a bucket of tokens for each key.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_RATE_LIMIT_H_
#define VGPU_NET_CONTROL_RATE_LIMIT_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace vgpu::net {

// Time comes in. Not thread-safe.
class TokenBucket {
 public:
  TokenBucket(double burst, double per_second, uint64_t now_ms)
      : burst_(burst), per_second_(per_second), tokens_(burst), at_ms_(now_ms) {}

  bool take(uint64_t now_ms) {
    tokens_ = tokens_at(now_ms);
    at_ms_ = std::max(at_ms_, now_ms);
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }
  bool full(uint64_t now_ms) const { return tokens_at(now_ms) >= burst_; }

 private:
  double tokens_at(uint64_t now_ms) const {
    const uint64_t passed_ms = now_ms > at_ms_ ? now_ms - at_ms_ : 0;
    return std::min(burst_, tokens_ + static_cast<double>(passed_ms) * per_second_ / 1e3);
  }

  double burst_, per_second_, tokens_;
  uint64_t at_ms_;
};

// One bucket for each name that was lately used. Holds at most kNamesMax; when even then all are in
// use, a new name gets nothing.
class RateLimit {
 public:
  static constexpr size_t kNamesMax = 4096;

  RateLimit(double burst, double per_second) : burst_(burst), per_second_(per_second) {}

  bool take(const std::string& name, uint64_t now_ms) {
    auto found = buckets_.find(name);
    if (found == buckets_.end()) {
      if (buckets_.size() >= kNamesMax) forget_idle(now_ms);
      if (buckets_.size() >= kNamesMax) return false;
      found = buckets_.emplace(name, TokenBucket(burst_, per_second_, now_ms)).first;
    }
    return found->second.take(now_ms);
  }
  size_t names() const { return buckets_.size(); }

 private:
  // A full bucket is as good as none.
  void forget_idle(uint64_t now_ms) {
    std::erase_if(buckets_, [&](auto& each) { return each.second.full(now_ms); });
  }

  const double burst_, per_second_;
  std::map<std::string, TokenBucket> buckets_;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_RATE_LIMIT_H_
