// What the application's handles stand for: contexts, streams, events.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_OBJECTS_H_
#define VGPU_SHIM_OBJECTS_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "api/stream_attributes.h"
#include "base/slot_map.h"

namespace vgpu::shim {

// Type tags inside handles; the worker sees them too, as the guest mints all ids.
enum HandleTag : uint64_t {
  kContextTag = 1,
  kStreamTag = 2,
  kEventTag = 3,
  kModuleTag = 4,
  kLibraryTag = 5,
  kFunctionTag = 6,  // never on the wire
  kKernelTag = 7,    // never on the wire
  kArrayTag = 9,
  kMipmappedArrayTag = 10,
  kHostCallTag = 11,
};

inline constexpr uint64_t kLegacyStreamId = 1;

// Progress of one line of work: numbers of records. Complete when everything submitted is known to
// be past.
struct Progress {
  std::atomic<uint64_t> submitted{0};  // newest record with work; written under the channel's lock
  std::atomic<uint64_t> completed{0};  // all up to here is past
  // A record number is only ever raised; relaxed: the numbers carry no other data with them.
  static void raise(std::atomic<uint64_t>& word, uint64_t value) {
    uint64_t seen = word.load(std::memory_order_relaxed);
    while (seen < value && !word.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }
  bool idle() const {
    return submitted.load(std::memory_order_relaxed) <= completed.load(std::memory_order_relaxed);
  }
};

// What never changes while an id lives, but does when its slot gets the next one
// (Removed::kStays). Release and acquire: SlotMap says why; here they cost nothing.
template <typename T>
class Lasting {
 public:
  operator T() const { return value_.load(std::memory_order_acquire); }
  T operator->() const { return *this; }
  void operator=(T value) { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<T> value_{};
};

struct Context {
  StreamAttributes legacy_attributes;  // of the legacy stream; under Session::objects
  uint64_t id = 0;
  uint32_t slot = 0;                    // of the sticky error word
  std::atomic<uint32_t> sms{0};         // on which its work runs; 0: all
  std::atomic<uint64_t> heap_bytes{0};  // of kernels' malloc that count in the quota
  CUdevice device = 0;
  bool primary = false;
  std::atomic<bool> named{false};   // primary: the worker knows it
  std::atomic<bool> active{false};  // false: primary not retained, or destroyed
  std::atomic<uint32_t> flags{0};
  uint32_t retains = 0;                 // primary; under ContextTable::primary_lives
  std::atomic<uint32_t> uses{1};        // created: cuCtxAttach, cuCtxDetach
  std::atomic<uint64_t> unique_id{0};   // cuCtxGetId; a new one for every life
  Progress progress;                    // everything in this context
  Progress legacy;                      // the legacy stream and what orders with it
  std::atomic<uint64_t> gate{0};        // newest cuCtxWaitEvent: new streams begin with that
  std::atomic<uint64_t> legacy_own{0};  // newest record with work of the legacy stream itself
  std::atomic<uint32_t> unordered_streams{
      0};  // live streams that do not order with the legacy stream by themselves

  CUcontext handle() const { return reinterpret_cast<CUcontext>(id); }
};

// Streams and events are looked up without a lock and may be destroyed by another thread then:
// their slots are SlotMap's kStays. Only the channel's lock keeps one that all_there() has found.
struct Stream {
  StreamAttributes attributes;  // under Session::objects
  Lasting<Context*> context;
  Lasting<uint32_t> flags;
  Lasting<int> priority;
  Lasting<uint64_t> unique_id;
  Lasting<bool> per_thread;
  Lasting<uint32_t> sms;  // on which its kernels run; 0: all of the context's
  Progress progress;

  // Under Session::objects.
  void renew(Context* of, uint32_t new_flags, int new_priority, uint64_t id, bool threads_own) {
    attributes = {};
    context = of;
    flags = new_flags;
    priority = new_priority;
    unique_id = id;
    per_thread = threads_own;
    sms = 0;
    progress.submitted.store(0, std::memory_order_release);
    progress.completed.store(0, std::memory_order_release);
  }
};

struct Event {
  Lasting<Context*> context;
  Lasting<uint32_t> flags;
  std::atomic<uint64_t> recorded{0};  // number of the newest EventRecord, 0: never
  std::atomic<uint64_t> completed{0};
  // Other processes have it too: only the worker knows how far it is.
  std::atomic<bool> shared{false};

  // Under Session::objects.
  void renew(Context* of, uint32_t new_flags) {
    set_recorded(0, 0);
    completed.store(0, std::memory_order_release);
    shared.store(false, std::memory_order_relaxed);
    context = of;
    flags = new_flags;
  }

  struct Record {
    uint64_t stream = 0, number = 0;  // stream 0: not known
  };
  // Under the channel's lock: of two threads that record one event the later one counts, and no
  // number is taken for the other's stream. Stream 0: in several, or not known.
  void set_recorded(uint64_t stream, uint64_t number) {
    recorded_in_.store(0, std::memory_order_release);
    recorded.store(number, std::memory_order_release);
    recorded_in_.store(stream, std::memory_order_release);
  }
  Record last_record() const {
    // acquire: between two equal answers the number is of that stream; partner is set_recorded().
    const uint64_t stream = recorded_in_.load(std::memory_order_acquire);
    const uint64_t number = recorded.load(std::memory_order_acquire);
    if (recorded_in_.load(std::memory_order_acquire) != stream) return {};
    return {stream, number};
  }

 private:
  std::atomic<uint64_t> recorded_in_{0};  // id of the stream
};

template <typename Handle>
inline uint64_t id_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}
template <typename Handle>
inline Handle handle_of(uint64_t id) {
  return reinterpret_cast<Handle>(id);
}

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_OBJECTS_H_
