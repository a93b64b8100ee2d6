// One hardware queue: the commands of one stream in order, and what waits for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "softgpu/exec/channel.h"
#include "softgpu/exec/meter.h"
#include "softgpu/exec/sm_mask.h"

namespace vgpu::softgpu {

struct Command;
struct Grid;

// What an event records: the end of everything before it in its queue.
struct EventPoint {
  // 0 until reached. Partner: GridManagement::complete stores (release) and then reads sleepers;
  // waiters the other way round.
  std::atomic<uint32_t> reached{0};  // also the futex word
  std::atomic<uint32_t> sleepers{0};
  uint64_t time_ns = 0;           // written before `reached`
  std::vector<Command*> blocked;  // guarded by GridManagement
};

enum class CommandKind : uint8_t { kGrid, kCopy, kHost, kWatch, kGraph, kMarker };

// One entry of a queue. Owned by its queue until it is complete.
struct Command {
  CommandKind kind = CommandKind::kMarker;
  bool started = false;
  bool always = false;    // kCopy, kHost: runs in a broken context too
  uint32_t blockers = 0;  // points and ordinals it still waits for
  uint64_t ordinal = 0;
  StreamQueue* queue = nullptr;
  std::unique_ptr<Grid> grid;          // kGrid
  std::function<void()> work;          // kCopy, kHost, kGraph
  std::function<bool()> ready;         // kWatch: asked over and over until it is true
  std::shared_ptr<EventPoint> record;  // kMarker: reached when this is
  std::vector<std::shared_ptr<EventPoint>> waits;
  bool behind_all = false;  // waits for everything that its channel was given before
  std::vector<std::shared_ptr<StreamQueue>> after;  // keeps the queues it waits for alive
  // Of a kernel's stream: the grid that is not complete before it, and the queue, which nobody else
  // keeps.
  Grid* parent = nullptr;
  std::shared_ptr<StreamQueue> own_queue;
  PieceRef piece;  // that it belongs to; null: nobody meters it
};

struct OrdinalWaiter {
  uint64_t ordinal;
  Command* command;
};

// Guarded by GridManagement's mutex but for the atomics.
class StreamQueue {
 public:
  StreamQueue(Channel* owner, bool blocking_stream, bool legacy_stream, int stream_priority)
      : channel(owner),
        blocking(blocking_stream),
        legacy(legacy_stream),
        priority(stream_priority) {}

  bool idle() const {
    return completed.load(std::memory_order_acquire) == submitted.load(std::memory_order_relaxed);
  }

  Channel* const channel;
  const bool
      blocking;  // takes part in the legacy stream's ordering (true for the legacy stream itself)
  const bool legacy;
  const int priority;      // lower runs first
  SmSet sms;               // on which its kernels run; null: all of the context's. Set once
  bool unbounded = false;  // submitting never waits: its contents are bounded otherwise
  bool closed = false;     // its stream is destroyed; what is in it still runs
  std::deque<std::unique_ptr<Command>> commands;
  std::vector<OrdinalWaiter> waiters;
  std::atomic<uint64_t> submitted{0};
  // Partner: complete() stores it (seq_cst) and then reads sleepers; wait_for() raises sleepers
  // first, then reads it.
  std::atomic<uint64_t> completed{0};
  std::atomic<uint32_t> completion_word{0};  // futex
  std::atomic<uint32_t> sleepers{0};
};

}  // namespace vgpu::softgpu
