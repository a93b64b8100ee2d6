// Device time by piece of work, for a server that shares the device out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "api/soft_meter.h"

namespace vgpu::softgpu {

// What a server's piece of work has used so far; tells when the last command of it has gone.
// Thread-safe.
class Piece {
 public:
  Piece(uint64_t kind, uint64_t note) : kind_(kind), note_(note) {}
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece();
  void use(uint64_t ns);

 private:
  const uint64_t kind_, note_;
  std::atomic<uint64_t> ns_{0};
};
using PieceRef = std::shared_ptr<Piece>;

// From here on pieces are told to `hooks`.
void start_meter(const SoftMeterHooks& hooks);

// The piece that the calling thread's commands belong to; null: none.
const PieceRef& current_piece();

// Commands of this thread belong to `piece` while it lives.
class PieceScope {
 public:
  explicit PieceScope(const PieceRef& piece);
  ~PieceScope();
  PieceScope(const PieceScope&) = delete;
  PieceScope& operator=(const PieceScope&) = delete;

 private:
  const PieceRef* const before_;
};

// Time that a thread spends on something: its CPU time when that takes long, when others may have
// had the processor meanwhile; else the time that passes, which is cheaper to read. What is long is
// told by what was measured last.
class WorkClock {
 public:
  void begin();
  uint64_t end();

 private:
  uint64_t began_ = 0, cpu_began_ = 0;
  bool long_ = false;
};

// Counts what the calling thread does while it lives, for `piece`; null: for nobody. One at a time.
class MeteredWork {
 public:
  explicit MeteredWork(const PieceRef& piece);
  ~MeteredWork();
  MeteredWork(const MeteredWork&) = delete;
  MeteredWork& operator=(const MeteredWork&) = delete;

 private:
  Piece* const piece_;
};

}  // namespace vgpu::softgpu
