// A CUDA context: queues, limits, kernel output, and the stack of current contexts per thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "api/green/contexts.h"
#include "softgpu/api/kernel_output.h"
#include "softgpu/api/stream_object.h"
#include "softgpu/exec/device.h"

namespace vgpu::softgpu {

inline constexpr int kLimitsMax = 16;
inline constexpr int kPriorityLeast = 0;
inline constexpr int kPriorityGreatest = -5;

// Never freed once made, so that a thread's stack may refer to a destroyed one; empty then.
// Thread-safe.
class Context {
 public:
  Context(Device* device, bool is_primary, uint64_t number);

  // Makes it usable (again): fresh channel, legacy stream, default limits. Caller excludes other
  // users.
  void open(unsigned context_flags);
  // Waits for its work, frees its streams, modules and memory. Handles of them become invalid.
  void close();

  bool alive() const { return alive_.load(std::memory_order_acquire); }
  std::shared_ptr<Channel> channel() const;
  std::shared_ptr<Stream> legacy_stream() const;
  std::shared_ptr<Stream> per_thread_stream();
  std::vector<std::shared_ptr<Stream>> streams() const;

  // A thread has ended: its default stream goes as a destroyed one does.
  void forget_thread(uint64_t thread);
  void add_stream(const std::shared_ptr<Stream>& stream);
  void drop_stream(const std::shared_ptr<Stream>& stream);
  // `point` is reached when all work is done that the context has been given.
  void record(const std::shared_ptr<EventPoint>& point);
  // All work that the context is given from now on waits for `point`, in streams of any age.
  void wait_for(const std::shared_ptr<EventPoint>& point);
  void add_module(const std::shared_ptr<Module>& module);
  void drop_module(const std::shared_ptr<Module>& module);

  // Contexts of other devices whose memory this one may use, by their ids. False: it was so
  // already.
  bool add_peer(uint64_t id);
  bool drop_peer(uint64_t id);

  // Memory of its own. Zero when there is none, even after others have given back what they keep.
  uint64_t allocate(uint64_t bytes, MemoryKind kind);
  // Frees a block of it once all that is submitted now is past. Does not wait.
  void free_later(uint64_t address);

  // Waits for everything submitted so far, prints what kernels wrote. Returns the sticky error.
  CUresult synchronise();
  CUresult sticky() const;

  Device& device() const { return *device_; }
  KernelOutput& output() { return output_; }

  const bool primary;
  const uint64_t id;  // cuCtxGetId; also the owner of its memory
  CUcontext handle = nullptr;
  SmSet sms;  // on which all of its work runs, set before it is opened; null: all
  std::atomic<uint32_t> life{0};  // counts open(): what belonged to an earlier life is gone
  std::atomic<unsigned> flags{0};
  std::atomic<unsigned> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<unsigned> shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};
  std::atomic<size_t> limits[kLimitsMax] = {};
  std::atomic<unsigned> uses{1};  // cuCtxAttach, cuCtxDetach
  unsigned retained = 0;          // primary: guarded by the primary's own mutex below
  std::mutex primary_mutex;

 private:
  struct LaterFree {
    uint64_t address;
    GridManagement::Pending work;  // that may use it
  };
  bool free_what_is_past();  // whether any was
  // Under mutex_: work of a new stream waits for what the context waits for.
  void gate(const Stream& fresh);

  Device* const device_;
  std::atomic<bool> alive_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<Channel> channel_;
  std::shared_ptr<Stream> legacy_;
  std::map<uint64_t, std::shared_ptr<Stream>> per_thread_;
  std::vector<std::shared_ptr<Stream>> streams_;
  std::vector<std::shared_ptr<Module>> modules_;
  std::shared_ptr<StreamQueue> gathering_;          // of record(); made when it is first needed
  std::vector<std::shared_ptr<EventPoint>> gates_;  // of wait_for(): for streams that are yet to be
  std::set<uint64_t> peers_;
  std::vector<LaterFree> later_frees_;
  KernelOutput output_;
};

// The calling thread's stack of current contexts. Plain data: nothing runs when the thread ends.
inline constexpr int kContextStackMax =
    64;  // cuCtxPushCurrent beyond this: CUDA_ERROR_OUT_OF_MEMORY
struct ContextStack {
  int depth;
  Context* entries[kContextStackMax];
  green::Green* views[kContextStackMax];  // in which an entry is current; null: as itself
  Context* top() const { return depth == 0 ? nullptr : entries[depth - 1]; }
  green::Green* view() const { return depth == 0 ? nullptr : views[depth - 1]; }
};
ContextStack& context_stack();

}  // namespace vgpu::softgpu
