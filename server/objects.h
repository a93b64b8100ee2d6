// What a session holds for its guest: contexts, streams, events.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_OBJECTS_H_
#define VGPU_SERVER_OBJECTS_H_

#include <cuda.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "driver_table.h"
#include "server/lane.h"
#include "server/quota.h"
#include "server/rundown.h"
#include "server/shares.h"

namespace vgpu::server {

struct Context;

// How far a stream's queue in the driver is filled: pieces of work between two checkpoints, and how
// many checkpoints may be open. Together half of what makes the driver block, which keeps any
// device busy.
inline constexpr uint32_t kFlowCheckpointsMax = 8;
struct FlowLimits {
  explicit FlowLimits(uint32_t driver_depth)
      : step(std::max(1u, driver_depth / (2 * kFlowCheckpointsMax))),
        checkpoints(std::clamp(driver_depth / 4, 1u, kFlowCheckpointsMax)) {}
  uint32_t step, checkpoints;
};

// How much of a stream's work the driver has got and not finished, known to within a step. Used by
// the consumer while the stream's lane is idle, else by the lane's thread.
class StreamFlow {
 public:
  StreamFlow(Context* context, const FlowLimits& limits) : context_(context), limits_(limits) {}
  StreamFlow(const StreamFlow&) = delete;
  StreamFlow& operator=(const StreamFlow&) = delete;
  ~StreamFlow();

  // Work of this weight was given to the driver. True: a checkpoint is due.
  bool count(uint32_t weight) {
    since_ += weight;
    return since_ >= limits_.step;
  }
  // Records a checkpoint into the stream; there is room for one.
  void checkpoint(const DriverTable& driver, CUstream stream);
  bool full() const { return open_ == limits_.checkpoints; }
  // The weight that can come for certain before it is full.
  uint32_t room() const {
    const uint32_t most = (limits_.checkpoints - open_) * limits_.step;
    return most > since_ ? most - since_ - 1 : 0;
  }
  // Forgets checkpoints that are past. Whether there is room for another.
  bool reclaim(const DriverTable& driver);
  // Waits until there is room for another.
  void wait_for_room(const DriverTable& driver);

 private:
  void pop();

  Context* const context_;
  const FlowLimits limits_;
  std::array<CUevent, kFlowCheckpointsMax> events_{};  // a ring: open_ of them from first_
  uint32_t first_ = 0, open_ = 0;
  uint32_t since_ = 0;
};

struct Event;
class PeerEvent;
class Strand;
struct Stream {
  Stream(Context* owner, const FlowLimits& limits) : context(owner), flow(owner, limits) {}

  CUstream handle = nullptr;
  Context* const context;
  bool blocking = false;  // orders with the legacy stream
  bool legacy = false;
  bool dirty = false;   // has had work since the last fence
  bool ending = false;  // what follows is its destruction
  // Orders with a default stream that is ours and not the driver's (default_stream.cc): then the
  // last of that one's work that it waits for, and whether it has work that that one does not.
  bool ordered = false, ahead = false;
  uint64_t behind = 0;
  bool lasts = false;      // has had work since it was last seen idle that is not prompt
  uint32_t hold_word = 0;  // of the semaphore page: tells the guest to stop
  Lane* lane = nullptr;    // once it has been deep
  // The guest's event that is the last of its work here, and which record of it; 0 = other work is.
  std::weak_ptr<Event> last_event;
  uint64_t last_record = 0;
  // Tells other sessions which records of shared events are past, in the stream's order; null:
  // there were none.
  std::shared_ptr<Strand> announcements;
  StreamFlow flow;
};

// Shared with the threads that wait on it: an event that the guest destroys lives until they are
// done. One that is recorded again while somebody still needs the earlier record is replaced by a
// fresh one, so a handle stands for at most one record that matters.
struct Event {
  Event(const DriverTable* table, CUevent event, Context* owner, uint32_t creation_flags)
      : driver(table), handle(event), context(owner), flags(creation_flags) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  const DriverTable* const driver;
  const CUevent handle;
  Context* const context;
  const uint32_t flags;
  LanePoint recorded;    // passed: the driver has the record; the consumer writes it
  uint64_t records = 0;  // how often it has been recorded; the consumer writes it
  // A graph records it or waits for it: its handle must not change any more.
  bool in_graph = false;
  std::shared_ptr<PeerEvent> peer;  // other sessions have it too; the consumer sets it
};

struct EventEntry {
  std::shared_ptr<Event> event;
  ShareName name;  // under which others may have it; no session: not yet
};

// Events of ours, without timing, used again and again. Thread-safe.
class EventPool {
 public:
  void give(CUevent event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }
  // The driver's own result when it makes none: in a broken context that is the fault.
  CUresult take(const DriverTable& driver, CUevent* event) {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        *event = free_.back();
        free_.pop_back();
        return CUDA_SUCCESS;
      }
    }
    return driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
  }
  // Gives all that are not in use back to the driver; their context is current.
  void release_all(const DriverTable& driver) {
    std::lock_guard lock(mutex_);
    for (CUevent event : free_) (void)driver.cuEventDestroy_v2(event);
    free_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<CUevent> free_;
};

// An event of ours behind work that somebody waits for; goes back to its context's pool.
struct Mark {
  explicit Mark(Context* owner) : context(owner) {}
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark();

  CUevent event = nullptr;
  Context* const context;
  LanePoint recorded;  // passed: the driver has the event
};
using MarkRef = std::shared_ptr<Mark>;
using Marks = std::vector<MarkRef>;

enum class ContextState : uint8_t { kBeingMade, kAlive, kGone };

// Kept until the session ends even when the guest has destroyed it: waiting threads refer to it.
struct Context {
  explicit Context(const FlowLimits& limits) : flow(limits), legacy(this, limits) {}

  const FlowLimits flow;  // of its streams
  uint64_t id = 0;
  CUcontext handle = nullptr;
  uint32_t slot = 0;    // of its sticky word in the semaphore page
  uint32_t device = 0;  // the guest's number of it
  bool primary = false;
  bool was_reset = false;  // the primary one: since then nobody has retained it
  // release by the thread that has made it, acquire by the consumer
  std::atomic<ContextState> state{ContextState::kBeingMade};
  Rundown use;       // of the driver's context, by all threads but the consumer
  EventPool events;  // before those who give theirs back when they go
  Stream legacy;
  // Streams of ours, made when they are first needed: one that comes behind all work of the context
  // (ContextRecordEvent), and one that waits for what all later work waits for (ContextWaitEvent).
  std::unique_ptr<Stream> gathering, gate;
  std::vector<Stream*> dirty;  // streams of this context with work since the last fence
  Marks orphans;  // work that no dirty stream stands for: of destroyed ones, or before a fence
  // Where the default stream is ours: how much work it has had, a mark behind that, streams with
  // work that it does not wait for yet, and marks behind those of them that are destroyed.
  struct OwnDefault {
    uint64_t works = 0, marked = 0;
    MarkRef mark;
    std::vector<Stream*> ahead;
    Marks departed;
  } own_default;
  std::vector<Context*> peers;  // whose devices' memory it may use; the consumer's
  std::shared_ptr<Charge>
      heap;  // what its kernels' malloc may take beyond the first; the consumer's

  mutable std::atomic<bool> faulted{false};  // its fault has been told to the guest

  bool alive() const { return state.load(std::memory_order_acquire) == ContextState::kAlive; }
};

inline Mark::~Mark() {
  if (event != nullptr) context->events.give(event);
}

inline Event::~Event() {
  // The events of a context that is gone went with it.
  if (const Rundown::Use use(&context->use); use) (void)driver->cuEventDestroy_v2(handle);
}

}  // namespace vgpu::server

#endif  // VGPU_SERVER_OBJECTS_H_
