// One attachment to a server: the channel and everything that the guest keeps beside it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SHIM_SESSION_H_
#define VGPU_SHIM_SESSION_H_

#include <cuda.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "api/ipc/opened_memory.h"
#include "api/managed/managed_ranges.h"
#include "protocol/session/handshake.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/expectation.h"
#include "shim/array_table.h"
#include "shim/context.h"
#include "shim/guest_device.h"
#include "shim/host_calls.h"
#include "shim/host_memory.h"
#include "shim/kernel_layout.h"
#include "shim/memory/virtual_memory.h"
#include "shim/output.h"
#include "shim/pools.h"
#include "shim/sm_resources.h"
#include "shim/stats.h"
#include "wire.h"

namespace vgpu::shim {

// A stream as work needs it: the id on the wire, and whose progress it is. The id is what the
// program's handle says, not the found stream, which may be the next one by now.
struct StreamRef {
  uint64_t id = kLegacyStreamId;
  Stream* stream = nullptr;  // null: the legacy stream
};

// As the worker gave it: whose session it is, and a secret.
struct ShareName {
  uint64_t session = 0, secret_low = 0, secret_high = 0;
};

// What this process shares with others by IPC, and has of them.
struct SharedMemory {
  // Blocking copies and fills are done when they return from now on: others may look right then.
  std::atomic<bool> any{false};
  std::mutex naming;                    // held by whoever asks for a name: what is shared has one
  std::mutex mutex;                     // taken after it
  std::map<uint64_t, ShareName> names;  // by id of the allocation; under `mutex`
  std::set<uint64_t> synchronous;       // allocations of SYNC_MEMOPS, by id; under `mutex`
  OpenedMemory opened;
};

// Thread-safe. Made by attach, never destroyed: threads may be anywhere in it when the process
// ends.
class Session {
 public:
  Session(protocol::HelloReply reply, std::unique_ptr<protocol::GuestChannel> channel);
  // Tables and the device memory; after that calls may come.
  Status open();

  protocol::GuestChannel& channel() { return *channel_; }
  const protocol::HelloReply& hello() const { return hello_; }
  const protocol::DeviceSnapshot* device(CUdevice number) const {
    const auto index = static_cast<size_t>(number);
    return number >= 0 && index < hello_.devices.size() ? &hello_.devices[index] : nullptr;
  }
  ContextTable& contexts() { return contexts_; }
  // Of all devices; that of one; that of a context's.
  GuestMemory& memory() { return memory_; }
  GuestDevice& guest_device(CUdevice number) { return devices_[static_cast<size_t>(number)]; }
  DeviceMemory& memory_of(const Context& context) { return guest_device(context.device).memory(); }
  HostMemory& host_memory() { return host_memory_; }
  HostCalls& host_calls() { return host_calls_; }
  GuestPools& pools() { return pools_; }
  ManagedRanges& managed() { return managed_; }
  SharedMemory& shared() { return shared_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  bool maps_memory() const { return virtual_memory_.served(); }
  ArrayTable& arrays() { return arrays_; }
  Output& output() { return output_; }
  Stats& stats() { return stats_; }
  SmResources& sm_resources() { return sm_resources_; }
  Progress& progress() { return progress_; }

  // What every call returns once the session is over; CUDA_SUCCESS while it runs.
  CUresult state() const {
    if (channel_->usable()) [[likely]]
      return CUDA_SUCCESS;
    return lost();
  }

  // One record, written and forgotten. Binds `context` (unless null) for it. `stream`: the record
  // is work there. Returns its number; 0 when the session is over.
  template <typename Args>
  uint64_t post(Context* context, Op op, const Args& args, std::span<const std::byte> blob = {},
                const StreamRef* stream = nullptr) {
    if (stream != nullptr) pace(*stream);
    std::lock_guard lock(channel_->lock());
    return post_locked(context, op, args, blob, protocol::kNoReply, stream);
  }
  template <typename Args>
  uint64_t post_locked(Context* context, Op op, const Args& args, std::span<const std::byte> blob,
                       uint32_t reply, const StreamRef* stream) {
    if (!all_there(args) || !bind(context)) [[unlikely]]
      return 0;
    if (reply != protocol::kNoReply && channel_->mover() != nullptr) [[unlikely]]
      protocol::expect_results(channel_->mover(), args, reply);
    const uint64_t number =
        protocol::write_record(&channel_->producer(), static_cast<uint16_t>(op), args, blob, reply);
    stats_.record(op, reply != protocol::kNoReply);
    if (stream != nullptr) note_work(context, *stream, number);
    return number;
  }

  // One record and its answer. Result of the driver, or what state() says. `number`: of the record.
  template <typename Args>
  CUresult call(Context* context, Op op, const Args& args, protocol::Reply* reply,
                std::span<const std::byte> blob = {}, uint64_t* number = nullptr) {
    const uint32_t slot = channel_->replies().acquire();
    if (slot == protocol::kNoReply) return lost();
    uint64_t sequence;
    {
      std::lock_guard lock(channel_->lock());
      sequence = post_locked(context, op, args, blob, slot, nullptr);
    }
    if (number != nullptr) *number = sequence;
    if (sequence == 0) {
      channel_->replies().release(slot);
      return lost();
    }
    return finish(slot, reply);
  }
  template <typename Args>
  CUresult call(Context* context, Op op, const Args& args) {
    protocol::Reply reply;
    return call(context, op, args, &reply);
  }
  template <typename Answer, typename Args>
  CUresult ask(Context* context, Op op, const Args& args, Answer* answer,
               std::span<const std::byte> blob = {}) {
    protocol::Reply reply;
    const CUresult result = call(context, op, args, &reply, blob);
    if (!reply.get(answer) && result == CUDA_SUCCESS) return CUDA_ERROR_UNKNOWN;
    return result;
  }
  // Waits for the answer in `slot` and gives the slot back.
  CUresult finish(uint32_t slot, protocol::Reply* reply);

  // The end of a call at which a driver shows what kernels have printed. Its result.
  CUresult show_output(CUresult result) {
    if (output_.prints() || result != CUDA_SUCCESS) [[unlikely]]
      output_.show(*this);
    return result;
  }

  // Before work for `stream`, without the channel's lock: waits while the worker holds the stream
  // because its queue is full, as a driver would block the calling thread.
  void pace(const StreamRef& stream) {
    const uint32_t word = protocol::hold_word(stream.id);
    if (channel_->semaphores().held(word)) [[unlikely]]
      channel_->semaphores().wait_while_held(word);
  }
  bool still_there(uint64_t stream) const {
    return stream == kLegacyStreamId || streams.find(stream) != nullptr;
  }
  // Under the channel's lock: whether the objects that a record names exist. They did when they
  // were looked up, but another thread may have destroyed them since, and the worker takes a name
  // that it does not know for an attack.
  template <typename Args>
  bool all_there(const Args& args) const {
    bool there = true;
    if constexpr (requires { args.stream; }) there = still_there(args.stream);
    if constexpr (requires { args.event; }) there = there && events.find(args.event) != nullptr;
    if constexpr (requires { args.start; })
      there = there && events.find(args.start) != nullptr && events.find(args.end) != nullptr;
    return there;
  }

  // Under the channel's lock: makes `context` the one that following records mean.
  bool bind(Context* context);
  // Under the channel's lock: forgets what is bound.
  void forget_bound() { bound_ = 0; }
  // Under the channel's lock: record `number` is work of `stream`.
  void note_work(Context* context, const StreamRef& stream, uint64_t number);
  // Under the channel's lock: record `number` is work behind all of `context`.
  void note_context_work(Context* context, uint64_t number);
  // Under the channel's lock: with record `number` all streams of `context` have something to do.
  void note_work_everywhere(Context* context, uint64_t number);
  // All work of `context` up to record `number` is past.
  void note_context_done(Context* context, uint64_t number);
  CUresult lost() const;
  // The process ends: every call fails from here on, and every wait returns.
  void end() {
    ended_.store(true, std::memory_order_relaxed);
    channel_->mark_dead();
  }

  // Gives memory of a device that is free, and kept by pools, back for `bytes` of another kind.
  // Whether any went.
  bool reclaim(CUdevice device, uint64_t bytes) {
    const bool others = pools_->give_back(device) | guest_device(device).finish_unloads();
    return guest_device(device).memory().reclaim(bytes) || others;
  }
  // Tells the worker the name of a device's primary context. The record's number; 0: over.
  uint64_t name_primary(Context* primary);
  // For what a device is told without a context being retained: the worker knows the primary one.
  CUresult make_ready(Context* primary);
  // Work that may touch memory freed before the record of this number is past.
  uint64_t retired() { return channel_->semaphores().value(protocol::Semaphore::kFreeRetired); }

  // Under `objects`: whether the guest has as many of this kind as it may have, or of all. The
  // bound of all is looked at where a profile has one: without, those of the kinds are lower
  // together.
  bool full(protocol::GuestLimit kind, uint64_t have) const {
    constexpr auto kAll = protocol::GuestLimit::kHandles;
    const uint64_t most = hello_.limits.of(kAll);
    if (have >= hello_.limits.of(kind)) return true;
    return most != protocol::GuestLimits().of(kAll) && handles() >= most;
  }
  // The same for what has no bound of its own, without the lock.
  bool full() {
    std::lock_guard lock(objects);
    return full(protocol::GuestLimit::kHandles, 0);
  }

  // Handles. `objects` guards insert and remove, and the maps inside modules.
  SpinMutex objects;
  SlotMap<Stream, kStreamTag, Removed::kStays> streams;
  SlotMap<Event, kEventTag, Removed::kStays> events;
  SlotMap<Module, kModuleTag> modules;
  SlotMap<Module, kLibraryTag> libraries;
  SlotMap<Function, kFunctionTag> functions;
  SlotMap<Function, kKernelTag> kernels;
  std::atomic<uint64_t> next_upload{1};
  // Modules with variables are being unloaded: their memory is not back yet. Relaxed: a hint.
  std::atomic<uint64_t> unloads{0}, unloaded{0};  // posted; of these, known to be through

 private:
  // Everything with a handle that the worker keeps for this guest. Under `objects`.
  uint64_t handles() const {
    return streams.size() + events.size() + modules.size() + libraries.size() + arrays_.count() +
           virtual_memory_.count();
  }
  std::deque<GuestDevice> make_devices();

  const protocol::HelloReply hello_;
  std::unique_ptr<protocol::GuestChannel> channel_;
  ContextTable contexts_;
  HostMemory host_memory_;
  HostCalls host_calls_;
  ArrayTable arrays_;
  std::deque<GuestDevice> devices_;
  GuestMemory memory_{devices_};
  Output output_;
  GuestPools pools_;
  ManagedRanges managed_;
  VirtualMemory virtual_memory_;
  SharedMemory shared_;
  Stats stats_;
  SmResources sm_resources_;
  Progress progress_;
  uint64_t bound_ = 0;
  std::atomic<bool> ended_{false};
};

// The heap of a context's kernels has this size now: what the quota counts of it is less free
// memory.
void count_heap(Session& session, Context* context, uint64_t bytes);

// Pages of a managed variable, whose descriptor the worker has just sent, at their address.
CUresult map_managed(Session& session, uint64_t base, uint64_t bytes);

}  // namespace vgpu::shim

#endif  // VGPU_SHIM_SESSION_H_
