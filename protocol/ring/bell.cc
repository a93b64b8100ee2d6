// Sleeping and waking by futex, by naps, by an interrupt.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/bell.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "protocol/limits.h"
#include "protocol/ring/doorbell.h"

namespace vgpu::protocol {
namespace {

void nap(int64_t ns) {
  const int saved = errno;
  const timespec length{ns / 1'000'000'000, ns % 1'000'000'000};
  (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, nullptr);
  errno = saved;
}

void wait_napping(const std::atomic<uint32_t>& word, uint32_t expected, int64_t timeout_ns) {
  const int64_t start = now_ns();
  for (int64_t waited = 0;; waited = now_ns() - start) {
    // acquire: partner is whatever the peer stores when it would ring.
    if (word.load(std::memory_order_acquire) != expected) return;
    const int64_t left = timeout_ns < 0 ? INT64_MAX : timeout_ns - waited;
    if (left <= 0) return;
    nap(std::min(nap_ns(waited), left));
  }
}

}  // namespace

int64_t nap_ns(int64_t waited_ns) { return std::clamp(waited_ns / 8, kNapNsMin, kNapNsMax); }

void Bell::wait(std::atomic<uint32_t>* word, uint32_t expected, int64_t timeout_ns) const {
  switch (sleep_) {
    case Sleep::kFutex:
      futex_wait(word, expected, timeout_ns);
      return;
    case Sleep::kNap:
      wait_napping(*word, expected, timeout_ns);
      return;
    case Sleep::kEpoch:
      break;
  }
  // acquire, and before the word: a ring after this load changes the epoch, so that the futex does
  // not sleep. Partner: whoever takes the interrupt, and wake_own.
  const uint32_t seen = epoch_->load(std::memory_order_seq_cst);
  if (word->load(std::memory_order_seq_cst) != expected) return;
  const int64_t most = timeout_ns < 0 ? kRungWaitNsMax : std::min(timeout_ns, kRungWaitNsMax);
  futex_wait(epoch_, seen, most);
}

void Bell::wake_peer(std::atomic<uint32_t>* word) const {
  switch (ring_) {
    case Ring::kFutex:
      futex_wake_all(word);
      return;
    case Ring::kNothing:
      return;
    case Ring::kRegister:
      *doorbell_ = value_;
      return;
    case Ring::kEvent:
      break;
  }
  const int saved = errno;
  const uint64_t one = 1;
  // Fails only when it is as full as it can be: then the interrupt is due already.
  const ssize_t written = ::write(event_, &one, sizeof(one));
  (void)written;
  errno = saved;
}

void Bell::wake_own(std::atomic<uint32_t>* word) const {
  switch (sleep_) {
    case Sleep::kFutex:
      futex_wake_all(word);
      return;
    case Sleep::kNap:
      return;
    case Sleep::kEpoch:
      break;
  }
  epoch_->fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(epoch_);
}

}  // namespace vgpu::protocol
