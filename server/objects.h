// What a session holds for its guest: contexts, streams, events.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_OBJECTS_H_
#define VGPU_SERVER_OBJECTS_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "driver_table.h"

namespace vgpu::server {

struct Context;

struct Stream {
  CUstream handle = nullptr;
  Context* context = nullptr;
  bool dirty = false;  // has had work since it was last seen idle
};

// Shared with the threads that wait on it: an event that the guest destroys lives until they are
// done.
struct Event {
  Event(const DriverTable* table, CUevent event, Context* owner)
      : driver(table), handle(event), context(owner) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { (void)driver->cuEventDestroy_v2(handle); }

  const DriverTable* driver;
  CUevent handle;
  Context* context;
};

struct EventEntry {
  std::shared_ptr<Event> event;
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
  CUevent event = nullptr;
  Context* context = nullptr;
};

// Kept until the session ends even when the guest has destroyed it: waiting threads refer to it.
struct Context {
  uint64_t id = 0;
  CUcontext handle = nullptr;
  uint32_t slot = 0;  // of its sticky word in the semaphore page
  bool primary = false;
  bool alive = true;
  bool was_reset = false;  // the primary one: since then nobody has retained it
  Stream legacy;
  std::vector<Stream*> dirty;  // streams of this context with work since they were last seen idle
  std::vector<Mark> orphans;   // work of streams that were destroyed while busy
  EventPool events;
};

}  // namespace vgpu::server

#endif  // VGPU_SERVER_OBJECTS_H_
