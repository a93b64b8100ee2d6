// How long to spin: the CPU-aware rule.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/doorbell.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>

namespace vgpu::protocol {
namespace {

// Spinning on the only CPU keeps the peer from running at all. How many the machine has, not how
// many we may use: the peer may be bound to others. Asked once; only speed hangs on it.
bool several_cpus() {
  static const bool several = sysconf(_SC_NPROCESSORS_ONLN) >= 2;
  return several;
}

}  // namespace

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int64_t SpinBudget::budget_ns(uint32_t peer_cpu) const {
  if (mode_ == SpinMode::kNever) return 0;
  if (mode_ == SpinMode::kForever) return INT64_MAX;
  if (mode_ == SpinMode::kRemote) return budget_ns_;
  // A peer on our own CPU cannot make progress while we spin.
  if (!several_cpus() || peer_cpu == this_cpu()) return 0;
  return budget_ns_;
}

void SpinBudget::end(int64_t now_ns) {
  const int64_t waited = now_ns - began_ns_;
  if (waited <= kSpinNsMax) {
    budget_ns_ = std::min(std::max(budget_ns_, 2 * waited), kSpinNsMax);
  } else {
    budget_ns_ = std::max(budget_ns_ / 2, kSpinNsMin);
  }
}

}  // namespace vgpu::protocol
