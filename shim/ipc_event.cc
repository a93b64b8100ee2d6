// Events that processes of one user share.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>

#include "driver_functions.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::shim {
namespace {

// One record and its answer. `stream`: whose work it is, or null; note(number) is called under the
// channel's lock.
template <typename Args, typename Note>
CUresult call_for(Session& session, Context* context, Op op, const Args& args,
                  const StreamRef* stream, Note note) {
  if (stream != nullptr) session.pace(*stream);
  const uint32_t slot = session.channel().replies().acquire();
  if (slot == protocol::kNoReply) return session.lost();
  uint64_t number = 0;
  {
    std::lock_guard lock(session.channel().lock());
    number = session.post_locked(context, op, args, {}, slot, stream);
    if (number != 0) note(number);
  }
  if (number == 0) {
    session.channel().replies().release(slot);
    return session.lost();
  }
  protocol::Reply reply;
  return session.finish(slot, &reply);
}

}  // namespace

CUresult record_shared(Session& session, Context* context, uint64_t id, Event& event,
                       const StreamRef& stream) {
  wire::PeerEventRecordArgs args;
  args.event = id;
  args.stream = stream.id;
  return call_for(session, context, Op::kPeerEventRecord, args, &stream,
                  [&](uint64_t number) { event.set_recorded(stream.id, number); });
}

CUresult wait_for_shared(Session& session, Context* context, uint64_t id, const StreamRef& stream) {
  wire::PeerEventWaitArgs args;
  args.event = id;
  args.stream = stream.id;
  return call_for(session, context, Op::kPeerEventWait, args, &stream, [](uint64_t) {});
}

CUresult record_shared_behind_all(Session& session, Context* context, uint64_t id, Event& event) {
  wire::ContextRecordEventArgs args;
  args.event = id;
  return call_for(session, context, Op::kContextRecordEvent, args, nullptr, [&](uint64_t number) {
    session.note_context_work(context, number);
    event.set_recorded(0, number);
  });
}

CUresult wait_everywhere_for_shared(Session& session, Context* context, uint64_t id) {
  wire::ContextWaitEventArgs args;
  args.event = id;
  return call_for(session, context, Op::kContextWaitEvent, args, nullptr,
                  [&](uint64_t number) { session.note_work_everywhere(context, number); });
}

CUresult launch_with_shared(Session& session, Context* context, const wire::GraphLaunchArgs& args,
                            const StreamRef& stream, const std::function<void(uint64_t)>& note) {
  return call_for(session, context, Op::kGraphLaunch, args, &stream, note);
}

}  // namespace vgpu::shim

namespace vgpu::driver {
namespace {

using shim::Context;
using shim::enter;
using shim::Event;
using shim::Session;
using shim::ShareName;

struct EventHandle {
  static constexpr uint64_t kMagic = 0x6576'695f'7570'6776;
  uint64_t magic = kMagic;
  ShareName name;
};
static_assert(sizeof(EventHandle) <= sizeof(CUipcEventHandle));

}  // namespace

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Event* event = session->events.find(shim::id_of(handle));
  if (event == nullptr || (event->flags & CU_EVENT_INTERPROCESS) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  wire::EventShareArgs args;
  args.event = shim::id_of(handle);
  wire::EventShareReply answer;
  if (CUresult r = session->ask(event->context, Op::kEventShare, args, &answer); r != CUDA_SUCCESS)
    return r;
  event->shared.store(true, std::memory_order_relaxed);
  session->shared().any.store(true);
  const EventHandle found{EventHandle::kMagic,
                          {answer.session, answer.secret_low, answer.secret_high}};
  *out = {};
  std::memcpy(out, &found, sizeof(found));
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle bytes) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  EventHandle handle;
  std::memcpy(static_cast<void*>(&handle), &bytes, sizeof(handle));
  if (out == nullptr || handle.magic != EventHandle::kMagic) return CUDA_ERROR_INVALID_VALUE;
  if (!shim::shares_events(*session)) return CUDA_ERROR_NOT_SUPPORTED;
  if (handle.name.session == session->hello().session) return CUDA_ERROR_INVALID_CONTEXT;
  shim::FetchedShare fetched;
  if (CUresult r = fetched.fetch(*session, handle.name, shim::kSharedEvent); r != CUDA_SUCCESS)
    return r;
  wire::EventOpenArgs args;
  {
    std::unique_lock lock(session->objects);
    if (session->full(protocol::GuestLimit::kEvents, session->events.size()))
      return CUDA_ERROR_OUT_OF_MEMORY;
    args.event = session->events.insert(context, unsigned{CU_EVENT_DISABLE_TIMING});
    if (args.event == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    Event* event = session->events.find(args.event);
    event->shared.store(true, std::memory_order_relaxed);
  }
  args.number = fetched.number();
  fetched.used();
  const CUresult result = session->call(context, Op::kEventOpen, args);
  if (result == CUDA_SUCCESS) {
    *out = shim::handle_of<CUevent>(args.event);
    return CUDA_SUCCESS;
  }
  std::unique_lock lock(session->objects);
  session->events.remove(args.event);
  return result;
}

}  // namespace vgpu::driver
