// The grid management unit: keeps every stream's order, starts what is ready, and tells who waits
// when it is done. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "softgpu/exec/grid.h"
#include "softgpu/exec/serial_engine.h"
#include "softgpu/exec/stream_queue.h"
#include "softgpu/exec/watch_engine.h"
#include "softgpu/exec/watchdog.h"
#include "softgpu/exec/work_distributor.h"

namespace vgpu::softgpu {

// Thread-safe. One for all devices of the process, whose copies share its engine; never destroyed
// while engines run.
class GridManagement {
 public:
  // `timeout_ms`: how long a grid may run; 0 = for ever.
  GridManagement(uint32_t launch_depth, uint64_t timeout_ms = 0);

  // The same as `timeout_ms`, before the first launch; the shortest counts.
  void limit_kernels(uint64_t timeout_ms);

  // Makes a queue and enters it in its channel.
  std::shared_ptr<StreamQueue> open_queue(Channel* channel, bool blocking, bool legacy,
                                          int priority);
  // Takes a queue out of its channel; its commands still run.
  void close_queue(const std::shared_ptr<StreamQueue>& queue);

  // Appends a command; blocks while `launch_depth` commands wait in the queue already. Legacy
  // ordering is added here. Returns the command's ordinal in its queue. With `next`: two, with
  // nothing between; the second one's ordinal.
  uint64_t submit(const std::shared_ptr<StreamQueue>& queue, std::unique_ptr<Command> command,
                  std::unique_ptr<Command> next = nullptr);
  // The same for a stream of a running kernel: part of `parent`, which is complete when it is. The
  // caller runs a block of `parent`.
  void submit_child(Grid& parent, const std::shared_ptr<StreamQueue>& queue,
                    std::unique_ptr<Command> command);
  // A launch that follows `parent` and all that is part of it, before what is next in its queue.
  void add_tail(Grid& parent, std::unique_ptr<Command> command);
  // An engine has finished a command (which is destroyed here).
  void complete(Command* command);
  // What is no command has happened: starts what waited for `point`.
  void reach(EventPoint& point);
  // Work of the channel that is not past: queues, and the newest command of each.
  using Pending = std::vector<std::pair<std::shared_ptr<StreamQueue>, uint64_t>>;
  Pending pending(const Channel& channel);
  // True when a command submitted to `queue` now would start at once.
  bool nothing_before(const StreamQueue& queue) const;
  // Whether the queue's stream is idle: certainly true once its last event is seen reached.
  bool settled(const StreamQueue& queue);

  // Of a further device, whose running blocks are to notice when their channel stops.
  void add_distributor(WorkDistributor* distributor);
  // A fault: the channel's later commands complete without running, running blocks leave. The first
  // one counts.
  void fail(Channel* channel, CUresult code);

  // Forgets a channel that is idle and about to end.
  void close_channel(Channel* channel);

  void wait_for(StreamQueue& queue, uint64_t ordinal);
  void wait_for(EventPoint& point);
  // Everything submitted to the channel before the call.
  void wait_for_all(Channel& channel);
  // For a process that ends, after fail(): until nothing of the channel runs but host functions.
  // They may never return: one may be ending the process, or wait for the thread that does.
  void wait_for_engines(Channel& channel);
  bool idle(Channel& channel);

 private:
  void block_on(StreamQueue& queue, uint64_t ordinal, const std::shared_ptr<StreamQueue>& keep,
                Command* command);
  void block_on_points(Command* command);
  void order_after_legacy(StreamQueue& queue, Command* command);
  void order_behind_all(StreamQueue& queue, Command* command);
  uint64_t append(const std::shared_ptr<StreamQueue>& queue, std::unique_ptr<Command> command);
  void start_if_ready(StreamQueue& queue);
  void unblock(Command* waiter);
  void mark_reached(EventPoint& point);
  void finish_front(StreamQueue& queue);
  void end(Command* command);
  void retire(Grid& grid);
  bool goes_on(Command* command);
  void drain_ready();
  bool run_ahead(Command* command);

  const uint32_t launch_depth_;
  SerialEngine copy_engine_{"vgpu-copy", this};
  SerialEngine host_engine_{"vgpu-host", this};
  SerialEngine graph_engine_{"vgpu-graph", this};
  std::unique_ptr<Watchdog> watchdog_;  // nullptr: no time-out
  uint64_t limit_ms_ = 0;               // 0: none
  WatchEngine watch_engine_{this};
  std::mutex distributors_mutex_;
  std::vector<WorkDistributor*> distributors_;
  std::mutex mutex_;
  std::vector<StreamQueue*> ready_;  // queues whose front may start
  std::vector<Command*> ended_;      // of grids whose last part was a command
  std::vector<std::shared_ptr<StreamQueue>> lingering_;
  std::vector<std::unique_ptr<Command>> spent_;  // destroyed when the mutex is free
};

}  // namespace vgpu::softgpu
