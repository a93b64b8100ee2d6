// Order between commands: one mutex, short sections; waiting is by futex on the queue or the event.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/grid_management.h"

#include <poll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "softgpu/exec/grid_family.h"

namespace vgpu::softgpu {
namespace {

constexpr int kLookMs = 1;  // between looks while a process ends

}  // namespace

GridManagement::GridManagement(uint32_t launch_depth, uint64_t timeout_ms)
    : launch_depth_(launch_depth) {
  limit_kernels(timeout_ms);
}

void GridManagement::limit_kernels(uint64_t timeout_ms) {
  if (timeout_ms == 0 || (limit_ms_ != 0 && limit_ms_ <= timeout_ms)) return;
  limit_ms_ = timeout_ms;
  watchdog_ = std::make_unique<Watchdog>(timeout_ms, [this, timeout_ms](Grid* grid) {
    VGPU_LOG_ERROR("kernel %s: longer than %llu ms: stopped", grid->kernel->name.c_str(),
                   static_cast<unsigned long long>(timeout_ms));
    fail(grid->channel, CUDA_ERROR_LAUNCH_TIMEOUT);
  });
}

std::shared_ptr<StreamQueue> GridManagement::open_queue(Channel* channel, bool blocking,
                                                        bool legacy, int priority) {
  auto queue = std::make_shared<StreamQueue>(channel, blocking, legacy, priority);
  std::lock_guard<std::mutex> lock(mutex_);
  if (legacy) {
    channel->legacy = queue;
  } else {
    channel->queues.push_back(queue);
  }
  return queue;
}

void GridManagement::close_queue(const std::shared_ptr<StreamQueue>& queue) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase(queue->channel->queues, queue);
  queue->closed = true;
  if (!queue->idle()) lingering_.push_back(queue);
}

void GridManagement::block_on(StreamQueue& queue, uint64_t ordinal,
                              const std::shared_ptr<StreamQueue>& keep, Command* command) {
  if (queue.completed.load(std::memory_order_relaxed) >= ordinal) return;
  queue.waiters.push_back({ordinal, command});
  command->after.push_back(keep);
  ++command->blockers;
}

void GridManagement::block_on_points(Command* command) {
  for (const std::shared_ptr<EventPoint>& point : command->waits) {
    if (point->reached.load(std::memory_order_relaxed) != 0) continue;
    point->blocked.push_back(command);
    ++command->blockers;
  }
}

// The legacy stream waits for all blocking streams of its context, and they for it.
void GridManagement::order_after_legacy(StreamQueue& queue, Command* command) {
  if (!queue.blocking) return;
  Channel& channel = *queue.channel;
  if (!queue.legacy) {
    block_on(*channel.legacy, channel.legacy->submitted.load(std::memory_order_relaxed),
             channel.legacy, command);
    return;
  }
  for (const std::shared_ptr<StreamQueue>& other : channel.queues) {
    if (other->blocking)
      block_on(*other, other->submitted.load(std::memory_order_relaxed), other, command);
  }
  for (const std::shared_ptr<StreamQueue>& other : lingering_) {
    if (other->blocking && other->channel == &channel) {
      block_on(*other, other->submitted.load(std::memory_order_relaxed), other, command);
    }
  }
}

void GridManagement::order_behind_all(StreamQueue& queue, Command* command) {
  const auto behind = [&](const std::shared_ptr<StreamQueue>& other) {
    if (other == nullptr || other.get() == &queue || other->channel != queue.channel) return;
    block_on(*other, other->submitted.load(std::memory_order_relaxed), other, command);
  };
  behind(queue.channel->legacy);
  for (const std::shared_ptr<StreamQueue>& other : queue.channel->queues) behind(other);
  for (const std::shared_ptr<StreamQueue>& other : lingering_) behind(other);
}

// Under mutex_.
uint64_t GridManagement::append(const std::shared_ptr<StreamQueue>& queue,
                                std::unique_ptr<Command> command) {
  Command* const raw = command.get();
  raw->queue = queue.get();
  if (raw->piece == nullptr) raw->piece = current_piece();
  if (raw->grid != nullptr) raw->grid->command = raw;
  order_after_legacy(*queue, raw);
  if (raw->behind_all) [[unlikely]]
    order_behind_all(*queue, raw);
  block_on_points(raw);
  raw->ordinal = queue->submitted.load(std::memory_order_relaxed) + 1;
  queue->submitted.store(raw->ordinal, std::memory_order_release);
  if (queue->blocking) queue->channel->blocking_outstanding.fetch_add(1, std::memory_order_relaxed);
  queue->commands.push_back(std::move(command));
  ready_.push_back(queue.get());
  return raw->ordinal;
}

void GridManagement::submit_child(Grid& parent, const std::shared_ptr<StreamQueue>& queue,
                                  std::unique_ptr<Command> command) {
  command->parent = &parent;
  command->piece = parent.command->piece;
  command->own_queue = queue;
  // Partner: the end of the parent's blocks and commands (acq_rel). One of its blocks is running,
  // so it is not 0 here.
  parent.remaining.fetch_add(1, std::memory_order_relaxed);
  std::vector<std::unique_ptr<Command>> spent;
  std::lock_guard<std::mutex> lock(mutex_);
  append(queue, std::move(command));
  drain_ready();
  spent.swap(spent_);
}

void GridManagement::add_tail(Grid& parent, std::unique_ptr<Command> command) {
  std::lock_guard<std::mutex> lock(mutex_);
  command->piece = parent.command->piece;
  parent.tails.push_back(std::move(command));
}

uint64_t GridManagement::submit(const std::shared_ptr<StreamQueue>& queue,
                                std::unique_ptr<Command> command, std::unique_ptr<Command> next) {
  while (!queue->unbounded) {
    // In this order: what others submit and complete meanwhile only makes the queue look longer.
    const uint64_t completed = queue->completed.load();
    const uint64_t submitted = queue->submitted.load(std::memory_order_relaxed);
    if (submitted < completed + launch_depth_) break;
    wait_for(*queue, submitted - launch_depth_ + 1);
  }
  uint64_t ordinal;
  std::vector<std::unique_ptr<Command>> spent;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ordinal = append(queue, std::move(command));
    if (next != nullptr) ordinal = append(queue, std::move(next));
    drain_ready();
    // Destroyed by another thread since the caller has found it: it must outlive its commands.
    if (queue->closed && !queue->idle() &&
        std::find(lingering_.begin(), lingering_.end(), queue) == lingering_.end()) {
      lingering_.push_back(queue);
    }
    spent.swap(spent_);
  }
  return ordinal;
}

// True when an engine runs it (or has taken it); false when it is complete already.
bool GridManagement::run_ahead(Command* command) {
  if (command->kind == CommandKind::kMarker) return false;
  if (command->queue->channel->sticky() != CUDA_SUCCESS && !command->always) return false;
  switch (command->kind) {
    case CommandKind::kGrid:
      if (watchdog_ != nullptr) watchdog_->watch(command->grid.get());
      command->grid->distributor->add(command->grid.get());
      break;
    case CommandKind::kWatch:
      watch_engine_.add(command);
      break;
    case CommandKind::kCopy:
      copy_engine_.add(command);
      break;
    case CommandKind::kGraph:
      graph_engine_.add(command);
      break;
    default:
      host_engine_.add(command);
      break;
  }
  return true;
}

void GridManagement::start_if_ready(StreamQueue& queue) {
  while (!queue.commands.empty()) {
    Command* const front = queue.commands.front().get();
    if (front->started || front->blockers != 0) return;
    front->started = true;
    if (run_ahead(front)) return;
    finish_front(queue);
  }
}

void GridManagement::drain_ready() {
  while (!ready_.empty() || !ended_.empty()) {
    if (!ended_.empty()) {
      Command* const command = ended_.back();
      ended_.pop_back();
      end(command);
      continue;
    }
    StreamQueue* const queue = ready_.back();
    ready_.pop_back();
    start_if_ready(*queue);
  }
}

void GridManagement::unblock(Command* waiter) {
  if (--waiter->blockers == 0) ready_.push_back(waiter->queue);
}

void GridManagement::mark_reached(EventPoint& point) {
  point.time_ns = monotonic_ns();
  point.reached.store(1, std::memory_order_seq_cst);
  if (point.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(&point.reached);
  for (Command* waiter : point.blocked) unblock(waiter);
  point.blocked.clear();
}

void GridManagement::finish_front(StreamQueue& queue) {
  std::unique_ptr<Command> command = std::move(queue.commands.front());
  queue.commands.pop_front();
  // Events before counts: whoever has seen the stream idle finds its events reached. The other way
  // round settled() sees to it.
  if (command->record != nullptr) mark_reached(*command->record);
  if (queue.blocking) queue.channel->blocking_outstanding.fetch_sub(1, std::memory_order_release);
  queue.completed.store(command->ordinal, std::memory_order_seq_cst);
  if (queue.sleepers.load(std::memory_order_seq_cst) != 0) {
    queue.completion_word.fetch_add(1, std::memory_order_seq_cst);
    futex_wake_all(&queue.completion_word);
  }
  std::erase_if(queue.waiters, [&](const OrdinalWaiter& waiter) {
    if (waiter.ordinal > command->ordinal) return false;
    unblock(waiter.command);
    return true;
  });
  if (command->parent != nullptr &&
      command->parent->remaining.fetch_sub(1, std::memory_order_acq_rel) == 1)
    ended_.push_back(command->parent->command);
  spent_.push_back(std::move(command));
}

// Nothing of a command is left to be done: for a grid, no block and nothing that its kernels
// launched.
void GridManagement::end(Command* command) {
  StreamQueue& queue = *command->queue;  // kept by the command, which is spent below
  if (command->grid != nullptr) retire(*command->grid);
  if (!goes_on(command)) finish_front(queue);
  ready_.push_back(&queue);
}

void GridManagement::retire(Grid& grid) {
  if (watchdog_ != nullptr) watchdog_->forget(&grid);
  if (grid.profile != nullptr) {
    grid.profile->done(grid.profile->counters,
                       monotonic_ns() - grid.began_ns.load(std::memory_order_relaxed));
  }
  if (const GridFamily* family = grid.family_if_any(); family != nullptr) {
    grid.channel->device_events.fetch_sub(static_cast<uint32_t>(family->events.size()),
                                          std::memory_order_relaxed);
  }
}

// What a grid launched for its end takes its place in the queue, one after another: whoever waits
// for the grid waits for the last of them, and chains of them do not grow.
bool GridManagement::goes_on(Command* command) {
  Grid* const grid = command->grid.get();
  if (grid == nullptr || (grid->tails.empty() && grid->after_tails.empty())) return false;
  if (command->queue->channel->sticky() != CUDA_SUCCESS) return false;
  std::vector<std::unique_ptr<Command>> rest = std::move(grid->tails);
  std::move(grid->after_tails.begin(), grid->after_tails.end(), std::back_inserter(rest));
  std::unique_ptr<Command> next = std::move(rest.front());
  rest.erase(rest.begin());
  next->queue = command->queue;
  next->ordinal = command->ordinal;
  next->parent = command->parent;
  next->own_queue = command->own_queue;
  next->record = std::move(command->record);
  next->grid->command = next.get();
  next->grid->after_tails = std::move(rest);
  block_on_points(next.get());
  spent_.push_back(std::exchange(next->queue->commands.front(), std::move(next)));
  return true;
}

void GridManagement::complete(Command* command) {
  std::vector<std::unique_ptr<Command>> spent;
  std::vector<std::shared_ptr<StreamQueue>> closed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    end(command);
    drain_ready();
    spent.swap(spent_);
    if (!lingering_.empty()) {
      std::erase_if(lingering_, [&closed](const std::shared_ptr<StreamQueue>& queue_left) {
        if (!queue_left->idle()) return false;
        closed.push_back(queue_left);
        return true;
      });
    }
  }
}

void GridManagement::reach(EventPoint& point) {
  std::vector<std::unique_ptr<Command>> spent;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    mark_reached(point);
    drain_ready();
    spent.swap(spent_);
  }
}

bool GridManagement::nothing_before(const StreamQueue& queue) const {
  if (!queue.idle()) return false;
  if (!queue.blocking) return true;
  if (queue.legacy) return queue.channel->blocking_outstanding.load(std::memory_order_acquire) == 0;
  return queue.channel->legacy->idle();
}

bool GridManagement::settled(const StreamQueue& queue) {
  const auto done = [&] { return queue.legacy ? nothing_before(queue) : queue.idle(); };
  if (done()) return true;
  std::lock_guard<std::mutex> lock(mutex_);  // what is about to be counted is
  return done();
}

void GridManagement::fail(Channel* channel, CUresult code) {
  int none = CUDA_SUCCESS;
  channel->error.compare_exchange_strong(none, code, std::memory_order_acq_rel);
  channel->stop.store(1, std::memory_order_seq_cst);
  std::lock_guard<std::mutex> lock(distributors_mutex_);
  for (WorkDistributor* const distributor : distributors_) distributor->interrupt_all();
}

void GridManagement::add_distributor(WorkDistributor* distributor) {
  std::lock_guard<std::mutex> lock(distributors_mutex_);
  distributors_.push_back(distributor);
}

void GridManagement::close_channel(Channel* channel) {
  std::vector<std::shared_ptr<StreamQueue>> closed;
  std::lock_guard<std::mutex> lock(mutex_);
  std::erase_if(lingering_, [&](const std::shared_ptr<StreamQueue>& queue) {
    if (queue->channel != channel) return false;
    closed.push_back(queue);
    return true;
  });
}

void GridManagement::wait_for(StreamQueue& queue, uint64_t ordinal) {
  for (int spin = 0; spin < 200; ++spin) {
    if (queue.completed.load(std::memory_order_acquire) >= ordinal) return;
    cpu_relax();
  }
  queue.sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t word = queue.completion_word.load(std::memory_order_seq_cst);
    if (queue.completed.load(std::memory_order_seq_cst) >= ordinal) break;
    futex_wait(&queue.completion_word, word, -1);
  }
  queue.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void GridManagement::wait_for(EventPoint& point) {
  point.sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (point.reached.load(std::memory_order_seq_cst) == 0) futex_wait(&point.reached, 0, -1);
  point.sleepers.fetch_sub(1, std::memory_order_relaxed);
}

GridManagement::Pending GridManagement::pending(const Channel& channel) {
  Pending all;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto note = [&](const std::shared_ptr<StreamQueue>& queue) {
    if (!queue->idle()) all.emplace_back(queue, queue->submitted.load(std::memory_order_relaxed));
  };
  if (channel.legacy != nullptr) note(channel.legacy);
  for (const auto& queue : channel.queues) note(queue);
  for (const auto& queue : lingering_) {
    if (queue->channel == &channel) note(queue);
  }
  return all;
}

void GridManagement::wait_for_all(Channel& channel) {
  for (const auto& [queue, ordinal] : pending(channel)) wait_for(*queue, ordinal);
}

void GridManagement::wait_for_engines(Channel& channel) {
  const auto rests = [](const std::shared_ptr<StreamQueue>& queue) {
    if (queue == nullptr || queue->commands.empty()) return true;
    const Command& front = *queue->commands.front();
    return !front.started || front.kind == CommandKind::kHost;
  };
  for (;;) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto runs = [&](const std::shared_ptr<StreamQueue>& queue) {
        return queue->channel == &channel && !rests(queue);
      };
      if (rests(channel.legacy) &&
          std::none_of(channel.queues.begin(), channel.queues.end(), runs) &&
          std::none_of(lingering_.begin(), lingering_.end(), runs)) {
        return;
      }
    }
    (void)::poll(nullptr, 0, kLookMs);
  }
}

bool GridManagement::idle(Channel& channel) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (channel.legacy != nullptr && !channel.legacy->idle()) return false;
  for (const auto& queue : channel.queues) {
    if (!queue->idle()) return false;
  }
  return std::none_of(lingering_.begin(), lingering_.end(),
                      [&](const std::shared_ptr<StreamQueue>& queue) {
                        return queue->channel == &channel && !queue->idle();
                      });
}

}  // namespace vgpu::softgpu
