// Raising, reading and waiting.
// SPDX-License-Identifier: Apache-2.0
//
//   raiser: store value; fence; load waiters
//   waiter: add to waiters; fence; load epoch, then value; futex_wait(epoch)
// The fences make it impossible that the raiser sees no waiter and the waiter sees the old value.
#include "protocol/ring/semaphore.h"

namespace vgpu::protocol {

namespace {

// Whether anybody may sleep on the epoch; then it has changed, and is to be woken.
bool raise_epoch(WaitersLine* line) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (line->waiters.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  line->epoch.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

}  // namespace

template <typename Ready>
WaitResult SemaphoreReader::wait_until(Ready ready, int64_t timeout_ns) {
  const auto over = [&] { return dead() || state() == SessionState::kFailed; };
  if (ready()) return WaitResult::kReady;
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  auto ended = [&] { return ready() || over(); };
  const MovedWait moved(mover_, ended);
  SpinBudget budget(spin_);
  if (mover_ == nullptr) spin_until(&budget, *worker_cpu_, dead_, deadline, ended);
  if (ready()) return WaitResult::kReady;
  std::atomic<uint32_t>& epoch = page_->waiters.epoch;
  page_->waiters.waiters.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: wake_waiters, mark_dead
  WaitResult result = WaitResult::kReady;
  for (;;) {
    const uint32_t seen = epoch.load(std::memory_order_seq_cst);
    if (ready()) break;
    if (over()) {
      result = WaitResult::kDead;
      break;
    }
    const int64_t left = timeout_ns < 0 ? -1 : deadline - now_ns();
    if (timeout_ns >= 0 && left <= 0) {
      result = WaitResult::kTimeout;
      break;
    }
    bell_.wait(&epoch, seen, left);
  }
  page_->waiters.waiters.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

void wake_waiters(WaitersLine* line) {
  if (raise_epoch(line)) futex_wake_all(&line->epoch);
}

void SemaphoreWriter::wake_all() {
  if (raise_epoch(&page_->waiters)) bell_.wake_peer(&page_->waiters.epoch);
}

void SemaphoreReader::wake_guest_waiters() {
  if (raise_epoch(&page_->waiters)) bell_.wake_own(&page_->waiters.epoch);
}

WaitResult SemaphoreReader::wait_for_guest(const std::function<bool()>& ready) {
  return wait_until(ready, -1);
}

void SemaphoreWriter::raise(Semaphore which, uint64_t value) {
  raise(&SemaphoreReader::line(page_, which).value, value);
}

void SemaphoreWriter::raise_credit(uint32_t device, uint64_t bytes) {
  if (device < kDevicesMax) raise(&page_->backed_credit[device], bytes);
}

void SemaphoreWriter::raise(std::atomic<uint64_t>* word, uint64_t value) {
  if (value <= word->load(std::memory_order_relaxed)) return;
  word->store(value, std::memory_order_release);
  wake_all();
}

void SemaphoreWriter::set_state(SessionState state, int32_t result) {
  page_->session_error.store(result, std::memory_order_relaxed);
  page_->session_state.store(static_cast<uint32_t>(state), std::memory_order_release);
  wake_all();
}

void SemaphoreWriter::set_sticky(uint32_t slot, int32_t result) {
  if (slot >= kContextSlots) return;
  int32_t healthy = 0;
  page_->sticky[slot].compare_exchange_strong(healthy, result, std::memory_order_acq_rel);
  wake_all();
}

void SemaphoreWriter::clear_sticky(uint32_t slot) {
  if (slot < kContextSlots) page_->sticky[slot].store(0, std::memory_order_release);
}

void SemaphoreWriter::set_held(uint32_t word, bool held) {
  std::atomic<uint32_t>& count = page_->held[word % kHoldWords];
  if (held) {
    count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  count.fetch_sub(1, std::memory_order_release);
  wake_all();
}

WaitResult SemaphoreReader::wait(Semaphore which, uint64_t at_least, int64_t timeout_ns) {
  return wait_until([&] { return value(which) >= at_least; }, timeout_ns);
}

WaitResult SemaphoreReader::wait_for_credit(uint32_t device, uint64_t at_least,
                                            int64_t timeout_ns) {
  return wait_until([&] { return credit(device) >= at_least; }, timeout_ns);
}

WaitResult SemaphoreReader::wait_while_held(uint32_t word, int64_t timeout_ns) {
  return wait_until([&] { return !held(word); }, timeout_ns);
}

void SemaphoreReader::mark_dead() {
  dead_.store(true, std::memory_order_seq_cst);
  page_->waiters.epoch.fetch_add(1, std::memory_order_seq_cst);
  bell_.wake_own(&page_->waiters.epoch);
}

}  // namespace vgpu::protocol
