// One attachment to a server.
// SPDX-License-Identifier: Apache-2.0
#include "shim/session.h"

#include <algorithm>

namespace vgpu::shim {
Session::Session(protocol::HelloReply reply, std::unique_ptr<protocol::GuestChannel> channel)
    : hello_(std::move(reply)),
      channel_(std::move(channel)),
      host_memory_(hello_.host_range.base, hello_.host_range.bytes != 0),
      devices_(make_devices()),
      pools_(devices_, *this),
      virtual_memory_(protocol::range_to_reserve(hello_.device_range).base,
                      protocol::range_to_reserve(hello_.device_range).bytes) {
  managed_.set_devices(static_cast<int>(devices_.size()));
  if (!devices_.empty()) devices_[0].memory().look_also_in(&virtual_memory_);
}

std::deque<GuestDevice> Session::make_devices() {
  std::deque<GuestDevice> devices;
  for (uint32_t i = 0; i < hello_.devices.size(); ++i) devices.emplace_back(*this, hello_, i);
  return devices;
}

Status Session::open() {
  for (size_t i = 0; i < devices_.size(); ++i) {
    VGPU_RETURN_IF_ERROR(devices_[i].memory().open());
    if (contexts_.add_primary(static_cast<CUdevice>(i)) == nullptr)
      return Status(StatusCode::kResourceExhausted, "no memory for contexts");
  }
  (void)name_primary(contexts_.primary(0));
  return ok_status();
}

uint64_t Session::name_primary(Context* primary) {
  wire::PrimaryRetainArgs args;
  args.context = primary->id;
  args.device = static_cast<uint32_t>(primary->device);
  args.flags = primary->flags.load(std::memory_order_relaxed);
  args.slot = primary->slot;
  const uint64_t number = post(nullptr, Op::kPrimaryRetain, args);
  if (number != 0) primary->named.store(true, std::memory_order_relaxed);
  return number;
}

CUresult Session::make_ready(Context* primary) {
  std::lock_guard life(contexts_.primary_lives(primary->device));
  if (primary->named.load(std::memory_order_relaxed)) return CUDA_SUCCESS;
  if (CUresult r = guest_device(primary->device).open(); r != CUDA_SUCCESS) return r;
  return name_primary(primary) != 0 ? CUDA_SUCCESS : lost();
}

CUresult Session::lost() const {
  if (ended_.load(std::memory_order_relaxed)) return CUDA_ERROR_DEINITIALIZED;
  if (channel_->usable()) return CUDA_ERROR_INVALID_HANDLE;  // destroyed meanwhile: all_there
  // Why the worker ended the session is still to be read when it is gone itself.
  const protocol::SemaphoreReader& page = const_cast<Session*>(this)->channel_->semaphores();
  if (!channel_->dead() || page.state() == protocol::SessionState::kFailed) {
    const auto error = static_cast<CUresult>(page.session_error());
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult Session::finish(uint32_t slot, protocol::Reply* reply) {
  if (channel_->replies().wait(slot, reply) != protocol::WaitResult::kReady) return lost();
  channel_->replies().release(slot);
  return static_cast<CUresult>(reply->result);
}

bool Session::bind(Context* context) {
  if (context == nullptr) return true;
  const std::atomic<bool>& known = context->primary ? context->named : context->active;
  if (!known.load(std::memory_order_relaxed)) [[unlikely]]
    return false;  // destroyed by another thread
  if (bound_ == context->id) [[likely]]
    return true;
  wire::ContextBindArgs args;
  args.context = context->id;
  if (protocol::write_record(&channel_->producer(), static_cast<uint16_t>(Op::kContextBind),
                             args) == 0)
    return false;
  stats_.record(Op::kContextBind, false);
  bound_ = context->id;
  return true;
}

void Session::note_work(Context* context, const StreamRef& stream, uint64_t number) {
  // relaxed: these only rise, and whoever reads an older value at worst asks the worker.
  progress_.submitted.store(number, std::memory_order_relaxed);
  context->progress.submitted.store(number, std::memory_order_relaxed);
  if (stream.stream == nullptr) {
    context->legacy.submitted.store(number, std::memory_order_relaxed);
    context->legacy_own.store(number, std::memory_order_relaxed);
    return;
  }
  stream.stream->progress.submitted.store(number, std::memory_order_relaxed);
  if ((stream.stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
    context->legacy.submitted.store(number, std::memory_order_relaxed);
  }
}

void Session::note_context_work(Context* context, uint64_t number) {
  progress_.submitted.store(number, std::memory_order_relaxed);  // relaxed: as above
  context->progress.submitted.store(number, std::memory_order_relaxed);
}

void Session::note_work_everywhere(Context* context, uint64_t number) {
  note_work(context, StreamRef(), number);
  context->gate.store(number, std::memory_order_relaxed);
  std::lock_guard lock(objects);
  streams.for_each([&](uint64_t, Stream& stream) {
    if (stream.context == context) stream.progress.submitted.store(number);
  });
}

void count_heap(Session& session, Context* context, uint64_t bytes) {
  const uint64_t counted = bytes - std::min(bytes, protocol::kHeapBytesFree);
  const uint64_t before = context->heap_bytes.exchange(counted);
  session.guest_device(context->device).variables()->fetch_add(counted - before);
}

void Session::note_context_done(Context* context, uint64_t number) {
  Progress::raise(context->progress.completed, number);
  Progress::raise(context->legacy.completed, number);
  if (contexts_.active_count() <= 1) Progress::raise(progress_.completed, number);
}

}  // namespace vgpu::shim
