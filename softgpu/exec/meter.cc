// Pieces and clocks of the meter.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/meter.h"

#include "base/clock.h"

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kLongNs = 100'000;  // reading a thread's CPU time twice costs about half a us

// release: partner is the acquire of whoever makes a piece.
std::atomic<const SoftMeterHooks*> hooks{nullptr};
const PieceRef no_piece;
thread_local const PieceRef* current = &no_piece;
thread_local WorkClock own_clock;

}  // namespace

Piece::~Piece() {
  const SoftMeterHooks* const to = hooks.load(std::memory_order_acquire);
  if (to != nullptr) to->done(to->context, kind_, note_, ns_.load(std::memory_order_relaxed));
}

void Piece::use(uint64_t ns) {
  ns_.fetch_add(ns, std::memory_order_relaxed);
  const SoftMeterHooks* const to = hooks.load(std::memory_order_acquire);
  if (to != nullptr) to->used(to->context, note_, ns);
}

void start_meter(const SoftMeterHooks& given) {
  static const SoftMeterHooks kept = given;
  hooks.store(&kept, std::memory_order_release);
}

const PieceRef& current_piece() { return *current; }

PieceScope::PieceScope(const PieceRef& piece) : before_(current) { current = &piece; }

PieceScope::~PieceScope() { current = before_; }

MeteredWork::MeteredWork(const PieceRef& piece) : piece_(piece.get()) {
  if (piece_ != nullptr) own_clock.begin();
}

MeteredWork::~MeteredWork() {
  if (piece_ != nullptr) piece_->use(own_clock.end());
}

void WorkClock::begin() {
  if (long_) cpu_began_ = thread_cpu_ns();
  began_ = monotonic_ns();
}

uint64_t WorkClock::end() {
  const uint64_t passed = monotonic_ns() - began_;
  const uint64_t ns = long_ ? thread_cpu_ns() - cpu_began_ : passed;
  long_ = passed > kLongNs;
  return ns;
}

}  // namespace vgpu::softgpu
