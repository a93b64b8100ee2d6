// Lanes: where the work of a stream waits whose driver queue is full, so that the consumer does
// not. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_LANE_H_
#define VGPU_SERVER_LANE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vgpu::server {

struct Context;
class Lane;

// Threads are made when a lane finds none idle, up to this many. A lane that waits for another lane
// holds none, and of those that wait for a turn only one for each engine does; so what holds one is
// waiting for the device. The next deep stream waits for one of them.
inline constexpr unsigned kLaneThreadsMax = 64;
// What one lane, and all together, may hold. A whole ring of commands fits into one lane; beyond
// that the consumer waits, and with it all streams of this guest.
inline constexpr uint64_t kLaneBytesMax = uint64_t{32} << 20;
inline constexpr uint64_t kLanesBytesMax = uint64_t{128} << 20;
// Commands in a lane at which its stream is held (the guest stops), and at which it goes on.
inline constexpr uint64_t kLaneHoldCommands = 1024;
inline constexpr uint64_t kLaneResumeCommands = 512;

// A place in a lane: passed once the lane has given the driver everything up to it.
struct LanePoint {
  Lane* lane = nullptr;  // null: passed
  uint64_t ticket = 0;
  bool passed() const;
};

// Work that waits in a lane. Runs once, on a lane's thread, or is dropped when the session ends.
class LaneCommand {
 public:
  LaneCommand() = default;
  LaneCommand(const LaneCommand&) = delete;
  LaneCommand& operator=(const LaneCommand&) = delete;
  virtual ~LaneCommand() = default;

  // One after the other, on threads of lanes, maybe on different ones: what its stream must wait
  // for; its turn, which one command of a line waits for at a time; and the work itself.
  static constexpr uint32_t kNoLine = UINT32_MAX;
  virtual void prepare() {}
  virtual uint32_t line() const { return kNoLine; }
  virtual void wait_for_turn() {}
  virtual void run() = 0;

  std::vector<LanePoint> after;  // places in other lanes that must be passed first
  uint64_t bytes = 0;            // of host memory, for the bounds above
};

// The commands of one stream that the driver has not got yet, in order. Never freed before the
// session ends, so that a LanePoint stays good; one that is idle serves another stream later.
class Lane {
 public:
  // --- the consumer
  // Everything posted has run. acquire: partner is the lane's thread, whose changes to the stream
  // are seen by whoever finds the lane idle.
  bool idle() const { return run_.load(std::memory_order_acquire) == posted_; }
  LanePoint end() { return {this, posted_}; }

  Context* context = nullptr;  // of the stream that it serves, and what the stream is
  bool blocking = false, legacy = false;
  bool abandoned = false;  // the stream is gone: free once idle
  bool listed = false;     // among the session's busy lanes
  // Up to there it holds nothing but prompt work, if anything: see Session::issue_carefully().
  uint64_t prompt = 0;
  // Of the stream's account, for what is still to come; negative: its thread may have to wait for
  // the device.
  int64_t room = 0;
  uint32_t hold_word = 0;

  // --- any thread
  bool passed(uint64_t ticket) const { return run_.load(std::memory_order_acquire) >= ticket; }

 private:
  friend class Lanes;
  struct Waiter {
    uint64_t ticket = 0;
    Lane* lane = nullptr;                       // to go on, or
    std::condition_variable* thread = nullptr;  // to wake
  };

  uint64_t posted_ = 0;
  std::atomic<uint64_t> run_{0};
  // Under Lanes::mutex_.
  std::deque<std::unique_ptr<LaneCommand>> commands_;
  std::vector<Waiter> waiters_;
  uint64_t bytes_ = 0;
  std::unique_ptr<LaneCommand> head_;  // prepared, and waits for its turn
  bool scheduled_ = false;  // a thread has it, it waits for one, for another lane, or in a line
  bool is_first_ = false;   // in the line for a turn
  bool held_ = false;
};

inline bool LanePoint::passed() const { return lane == nullptr || lane->passed(ticket); }

// All lanes of a session and the threads that run them.
class Lanes {
 public:
  // Called when a lane passes kLaneHoldCommands or kLaneResumeCommands, from any thread.
  using Hold = std::function<void(uint32_t word, bool held)>;

  explicit Lanes(Hold hold, unsigned threads_max = kLaneThreadsMax,
                 uint64_t bytes_max = kLanesBytesMax)
      : hold_(std::move(hold)), threads_max_(threads_max), bytes_max_(bytes_max) {}
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  ~Lanes() { stop(); }

  // --- the consumer
  Lane* take();
  void give(Lane* lane);  // idle
  // Appends a command. Waits while the bounds are reached. The place behind it.
  LanePoint post(Lane* lane, std::unique_ptr<LaneCommand> command);

  // --- any thread but a lane's
  // Waits until the place is passed, or all is stopped.
  void wait(const LanePoint& point);
  // Waits until every lane has passed what was posted before.
  void drain();
  // Ends all waits; waits for the commands that run and drops the others.
  void stop();

 private:
  void work();
  void run(Lane* lane, std::unique_lock<std::mutex>* lock);
  bool get_turn(Lane* lane, std::unique_lock<std::mutex>* lock);
  std::unique_ptr<LaneCommand> next(Lane* lane);
  void schedule(Lane* lane);
  void passed(Lane* lane);
  void update_hold(Lane* lane);

  const Hold hold_;
  const unsigned threads_max_;
  const uint64_t bytes_max_;
  std::mutex mutex_;
  std::condition_variable ready_changed_, room_;
  std::deque<std::unique_ptr<Lane>> all_;
  std::vector<Lane*> free_;
  std::deque<Lane*> ready_;
  std::map<uint32_t, std::deque<Lane*>> lines_;  // for turns; the first one waits for its turn
  std::vector<std::thread> threads_;
  unsigned idle_threads_ = 0;
  uint64_t bytes_ = 0;
  bool stopping_ = false;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_LANE_H_
