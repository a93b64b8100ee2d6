// Contexts of the process and the stack of current contexts of each thread.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_CONTEXT_H_
#define VGPU_SHIM_CONTEXT_H_

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "api/green/contexts.h"
#include "base/slot_map.h"
#include "base/spin_mutex.h"
#include "protocol/limits.h"
#include "shim/objects.h"

namespace vgpu::shim {

inline constexpr uint32_t kContextSlots = 64;  // sticky error words in the semaphore page

// The contexts of the process. Thread-safe. A Context lives as long as the process: threads may
// hold a destroyed one as their current context, and find out that it is destroyed when they use
// it.
class ContextTable {
 public:
  // The primary context of a device that has just been attached; inactive until retained.
  Context* add_primary(CUdevice device);
  // A created context; nullptr when all slots are taken. Active once the worker has it.
  Context* add_created(CUdevice device, uint32_t flags);
  // nullptr for anything that was never a context.
  // For the view of a green context: the primary one.
  Context* find(CUcontext handle) const { return contexts_.find(id_of(green::base_of(handle))); }
  // The same, and nullptr for a created context that was destroyed. A primary one that is not
  // retained counts: libcudart makes it current before it retains it.
  Context* find_living(CUcontext handle) const {
    Context* context = find(handle);
    const bool gone =
        context != nullptr && !context->primary && !context->active.load(std::memory_order_acquire);
    return gone ? nullptr : context;
  }
  Context* primary(CUdevice device) const {
    const auto index = static_cast<size_t>(device);
    return device >= 0 && index < primaries_.size() ? primaries_[index] : nullptr;
  }
  // One that is active, of whichever device; nullptr when none is.
  Context* any_active();
  // A destroyed context gives its slot back.
  void release_slot(Context* context);
  // A fresh id for cuCtxGetId, cuStreamGetId.
  uint64_t next_unique_id() { return unique_ids_.fetch_add(1, std::memory_order_relaxed); }
  // Number of contexts that are active; of a device's.
  uint32_t active_count() const { return active_.load(std::memory_order_relaxed); }
  uint32_t active_count(CUdevice device) const {
    return active_on_[static_cast<size_t>(device)].load(std::memory_order_relaxed);
  }
  // Begins or ends a life of a context. Whether it was active.
  bool set_active(Context* context, bool active);
  // Calls `change`, and when it succeeds notes that `context` may use memory of `peer`'s device, or
  // may no longer. ALREADY_ENABLED and NOT_ENABLED when that is so already.
  template <typename Change>
  CUresult set_peer(const Context* context, const Context* peer, bool enable, Change change) {
    std::lock_guard lock(peers_mutex_);
    const bool known = peers_.count({context, peer}) != 0;
    if (known == enable)
      return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    const CUresult result = change();
    if (result != CUDA_SUCCESS) return result;
    if (enable) {
      peers_.insert({context, peer});
    } else {
      peers_.erase({context, peer});
    }
    return CUDA_SUCCESS;
  }
  bool is_peer(const Context* context, const Context* peer) {
    std::lock_guard lock(peers_mutex_);
    return peers_.count({context, peer}) != 0;
  }
  // The context ends: so does its access, and others' by way of it.
  void drop_peers(const Context* context);

  // Guards the retains of a device's primary context and one life of it against the next.
  std::mutex& primary_lives(CUdevice device) { return primary_lives_[static_cast<size_t>(device)]; }

 private:
  Context* add(CUdevice device, uint32_t slot);

  SpinMutex mutex_;
  SlotMap<Context, kContextTag> contexts_;
  std::vector<Context*> primaries_;
  uint64_t slots_taken_ = 0;
  std::atomic<uint64_t> unique_ids_{1};
  std::atomic<uint32_t> active_{0};
  std::array<std::atomic<uint32_t>, protocol::kDevicesMax> active_on_{};
  std::mutex peers_mutex_;
  std::set<std::pair<const Context*, const Context*>> peers_;
  std::array<std::mutex, protocol::kDevicesMax> primary_lives_;
};

// What a thread has: its stack of contexts and its default streams. Owned by the thread, freed when
// it ends.
struct ThreadState {
  struct Entry {
    Context* context;
    green::Green* view;  // in which it is current; null: as itself
  };
  std::vector<Entry> stack;
  struct DefaultStream {
    Context* context;
    uint64_t context_life;  // Context::unique_id when the stream was made
    uint64_t id;
    Stream* stream;
  };
  std::vector<DefaultStream> default_streams;
};

using ThreadEndHook = void (*)(ThreadState*);
// Called at the end of a thread that has a state, before the state goes.
void set_thread_end_hook(ThreadEndHook hook);

// The calling thread's state; made on first use. nullptr only when memory is exhausted.
ThreadState* thread_state();

// The calling thread's current context, destroyed or not; nullptr when there is none.
Context* current_context();
// The green context in whose place that is current; nullptr when it is current itself.
green::Green* current_view();
CUcontext current_handle();  // as the program knows it
// Replaces the top; nullptr pops it.
void set_current_context(Context* context, green::Green* view = nullptr);
void push_current_context(Context* context, green::Green* view = nullptr);
Context* pop_current_context();  // nullptr when the stack is empty
// Takes `context` off the calling thread's stack top, when it is there (cuCtxDestroy).
void drop_current_context(Context* context);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_CONTEXT_H_
