// Lanes and their threads: one mutex, short sections; it is taken only while a stream is deep.
// SPDX-License-Identifier: Apache-2.0
#include "server/lane.h"

#include <utility>

namespace vgpu::server {

Lane* Lanes::take() {
  std::lock_guard lock(mutex_);
  if (free_.empty()) return all_.emplace_back(std::make_unique<Lane>()).get();
  Lane* lane = free_.back();
  free_.pop_back();
  return lane;
}

void Lanes::give(Lane* lane) {
  std::lock_guard lock(mutex_);
  free_.push_back(lane);
}

LanePoint Lanes::post(Lane* lane, std::unique_ptr<LaneCommand> command) {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] {
    return stopping_ || lane->commands_.empty() ||
           (lane->bytes_ + command->bytes <= kLaneBytesMax &&
            bytes_ + command->bytes <= bytes_max_);
  });
  if (stopping_) return {};
  lane->bytes_ += command->bytes;
  bytes_ += command->bytes;
  lane->commands_.push_back(std::move(command));
  ++lane->posted_;
  update_hold(lane);
  if (!lane->scheduled_) schedule(lane);
  return lane->end();
}

void Lanes::update_hold(Lane* lane) {
  const size_t commands = lane->commands_.size();
  if (lane->held_ ? commands > kLaneResumeCommands : commands < kLaneHoldCommands) return;
  lane->held_ = !lane->held_;
  hold_(lane->hold_word, lane->held_);
}

void Lanes::schedule(Lane* lane) {
  lane->scheduled_ = true;
  ready_.push_back(lane);
  if (idle_threads_ < ready_.size() && threads_.size() < threads_max_ && !stopping_) {
    threads_.emplace_back([this] { work(); });
  }
  ready_changed_.notify_one();
}

void Lanes::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_threads_;
    ready_changed_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    --idle_threads_;
    if (stopping_) return;
    Lane* lane = ready_.front();
    ready_.pop_front();
    run(lane, &lock);
  }
}

void Lanes::run(Lane* lane, std::unique_lock<std::mutex>* lock) {
  while (!stopping_) {
    if (lane->head_ == nullptr) {
      lane->head_ = next(lane);
      if (lane->head_ == nullptr) return;
      lock->unlock();
      lane->head_->prepare();
      lock->lock();
    }
    if (!get_turn(lane, lock)) return;
    std::unique_ptr<LaneCommand> command = std::move(lane->head_);
    const uint64_t bytes = command->bytes;
    lock->unlock();
    command->run();
    command.reset();
    // release: partner is Lane::idle() and passed().
    lane->run_.fetch_add(1, std::memory_order_release);
    lock->lock();
    lane->bytes_ -= bytes;
    bytes_ -= bytes;
    update_hold(lane);
    room_.notify_one();
    passed(lane);
  }
}

// False: others of its line are before it, and whoever has had his turn sends the next one here.
bool Lanes::get_turn(Lane* lane, std::unique_lock<std::mutex>* lock) {
  const uint32_t number = lane->head_->line();
  if (number == LaneCommand::kNoLine) return true;
  std::deque<Lane*>& line = lines_[number];
  if (!lane->is_first_) {
    line.push_back(lane);
    lane->is_first_ = line.size() == 1;
    if (!lane->is_first_) return false;
  }
  lock->unlock();
  lane->head_->wait_for_turn();
  lock->lock();
  line.pop_front();
  lane->is_first_ = false;
  if (!line.empty()) {
    line.front()->is_first_ = true;
    schedule(line.front());
  }
  return true;
}

// The lane's next command; null when there is none, or it waits for another lane.
std::unique_ptr<LaneCommand> Lanes::next(Lane* lane) {
  if (lane->commands_.empty()) {
    lane->scheduled_ = false;
    return nullptr;
  }
  for (const LanePoint& point : lane->commands_.front()->after) {
    if (point.passed()) continue;
    point.lane->waiters_.push_back({point.ticket, lane, nullptr});
    return nullptr;
  }
  std::unique_ptr<LaneCommand> command = std::move(lane->commands_.front());
  lane->commands_.pop_front();
  return command;
}

void Lanes::passed(Lane* lane) {
  std::erase_if(lane->waiters_, [&](const Lane::Waiter& waiter) {
    if (!lane->passed(waiter.ticket)) return false;
    if (waiter.lane != nullptr) {
      schedule(waiter.lane);
    } else {
      waiter.thread->notify_all();
    }
    return true;
  });
}

void Lanes::wait(const LanePoint& point) {
  if (point.passed()) return;
  std::condition_variable reached;
  std::unique_lock lock(mutex_);
  if (stopping_ || point.passed()) return;
  point.lane->waiters_.push_back({point.ticket, nullptr, &reached});
  reached.wait(lock, [&] { return stopping_ || point.passed(); });
  std::erase_if(point.lane->waiters_,
                [&](const Lane::Waiter& waiter) { return waiter.thread == &reached; });
}

void Lanes::drain() {
  std::vector<LanePoint> ends;
  {
    std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Lane>& lane : all_) ends.push_back(lane->end());
  }
  for (const LanePoint& end : ends) wait(end);
}

void Lanes::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    ready_changed_.notify_all();
    room_.notify_all();
    for (const std::unique_ptr<Lane>& lane : all_) {
      for (const Lane::Waiter& waiter : lane->waiters_) {
        if (waiter.thread != nullptr) waiter.thread->notify_all();
      }
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace vgpu::server
