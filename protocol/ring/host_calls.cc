// Posting, taking and finishing. Neither side reads its own words back.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/host_calls.h"

namespace vgpu::protocol {

bool HostCallWriter::post(const HostCall& call) {
  const uint64_t posted = posted_.load(std::memory_order_relaxed);
  // acquire: partner is wait_finished, by which the entry is free.
  if (posted - finished_.load(std::memory_order_acquire) >= kHostCallEntries) return false;
  HostCallEntry& entry = page_->entries[posted % kHostCallEntries];
  entry.id = call.id;
  entry.status = call.status;
  posted_.store(posted + 1, std::memory_order_relaxed);
  publish_cpu(&page_->posted.cpu);
  // release: partner is HostCallReader::next, which then reads the entry.
  page_->posted.position.store(posted + 1, std::memory_order_release);
  ring_doorbell(bell_, &page_->guest_sleep.sleeping);
  return true;
}

WaitResult HostCallWriter::wait_finished(uint64_t* finished) {
  const uint64_t before = finished_.load(std::memory_order_relaxed);
  uint64_t seen = before;
  const WaitResult result =
      wait_for(bell_, &page_->worker_sleep.sleeping, &spin_, page_->finished.cpu, dead_, -1, [&] {
        // acquire: partner is HostCallReader::finish, so what the function has done is seen.
        seen = page_->finished.position.load(std::memory_order_acquire);
        return seen != before;
      });
  if (result != WaitResult::kReady) return result;
  if (seen - before > posted() - before) broken_ = true;
  if (broken_) return WaitResult::kDead;
  finished_.store(seen, std::memory_order_release);
  *finished = seen;
  return WaitResult::kReady;
}

void HostCallWriter::mark_dead() {
  dead_.store(true, std::memory_order_seq_cst);
  wake_sleeper(bell_, &page_->worker_sleep.sleeping);
}

WaitResult HostCallReader::next(HostCall* call) {
  uint64_t seen = finished_;
  const WaitResult result =
      wait_for(bell_, &page_->guest_sleep.sleeping, &spin_, page_->posted.cpu, dead_, -1, [&] {
        seen = page_->posted.position.load(std::memory_order_acquire);
        return seen != finished_;
      });
  if (result != WaitResult::kReady) return result;
  if (seen - finished_ > kHostCallEntries) return WaitResult::kDead;
  const HostCallEntry& entry = page_->entries[finished_ % kHostCallEntries];
  // Read once: the worker may change it at any time.
  call->id = __atomic_load_n(&entry.id, __ATOMIC_RELAXED);
  call->status = __atomic_load_n(&entry.status, __ATOMIC_RELAXED);
  return WaitResult::kReady;
}

void HostCallReader::finish() {
  publish_cpu(&page_->finished.cpu);
  page_->finished.position.store(++finished_, std::memory_order_release);
  ring_doorbell(bell_, &page_->worker_sleep.sleeping);
  if (mover_ != nullptr) mover_->published();
}

void HostCallReader::mark_dead() {
  dead_.store(true, std::memory_order_seq_cst);
  wake_sleeper(bell_, &page_->guest_sleep.sleeping);
}

}  // namespace vgpu::protocol
