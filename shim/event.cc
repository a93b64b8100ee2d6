// Events: cuEvent*.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <cstring>
#include <mutex>

#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/share.h"

namespace vgpu::driver {

using shim::Context;
using shim::enter;
using shim::Event;
using shim::find_stream;
using shim::handle_of;
using shim::id_of;
using shim::Progress;
using shim::Session;
using shim::StreamRef;

namespace {

constexpr unsigned kEventFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

// An event and the id that it was found under: what the program's handle says.
struct EventRef {
  uint64_t id = 0;
  Event* event = nullptr;
  Event* operator->() const { return event; }
};

CUresult look_up(CUevent handle, Session** session, EventRef* event) {
  Context* context;
  if (CUresult r = enter(session, &context); r != CUDA_SUCCESS) return r;
  *event = {id_of(handle), (*session)->events.find(id_of(handle))};
  return event->event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// A context and an event. No context has to be current.
CUresult look_up(CUcontext handle, CUevent event_handle, Session** session, Context** context,
                 EventRef* event) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  if (inside_host_function) return CUDA_ERROR_NOT_PERMITTED;
  *context = (*session)->contexts().find_living(handle);
  if (*context == nullptr || !(*context)->active.load(std::memory_order_acquire))
    return CUDA_ERROR_INVALID_CONTEXT;
  const int32_t sticky = (*session)->channel().semaphores().sticky((*context)->slot);
  if (sticky != 0) return (*session)->show_output(static_cast<CUresult>(sticky));
  *event = {id_of(event_handle), (*session)->events.find(id_of(event_handle))};
  return event->event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

// Whether what the event was last recorded behind is known to be past.
bool known_done(Session& session, const Event& event) {
  if (event.shared.load(std::memory_order_relaxed)) [[unlikely]]
    return false;
  const uint64_t recorded = event.recorded.load(std::memory_order_acquire);
  return recorded <= event.completed.load(std::memory_order_relaxed) ||
         recorded <= event.context->progress.completed.load(std::memory_order_relaxed) ||
         recorded <= session.retired();
}

// An answer means that the event was there until the record that asks was written, so what was read
// of it before is its own.
template <typename Args>
CUresult ask_about(Session& session, const EventRef& event, Op op) {
  const uint64_t recorded = event->recorded.load(std::memory_order_acquire);
  const Event::Record record = event->last_record();
  Context* context = event->context;
  Args args;
  args.event = event.id;
  const CUresult result = session.call(context, op, args);
  if (result != CUDA_SUCCESS) return result;
  // A record of a broken context is past for everybody; here the context's error is told as well.
  if (event->shared.load(std::memory_order_relaxed))
    return static_cast<CUresult>(session.channel().semaphores().sticky(context->slot));
  // Numbers of records that came later are higher: whatever has the slot by now, this cannot say
  // too much of it.
  Progress::raise(event->completed, recorded);
  // So is all before it in its stream.
  if (record.stream == shim::kLegacyStreamId) {
    Progress::raise(context->legacy.completed, record.number);
  } else if (shim::Stream* stream = session.streams.find(record.stream); stream != nullptr) {
    Progress::raise(stream->progress.completed, record.number);
  }
  return result;
}

}  // namespace

CUresult cuEventCreate(CUevent* handle, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (handle == nullptr || (flags & ~kEventFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    if ((flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!shim::shares_events(*session)) return CUDA_ERROR_NOT_SUPPORTED;
  }
  uint64_t id;
  {
    std::unique_lock lock(session->objects);
    if (session->full(protocol::GuestLimit::kEvents, session->events.size())) [[unlikely]]
      return CUDA_ERROR_OUT_OF_MEMORY;
    id = session->events.insert(context, flags);
    if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  wire::EventCreateArgs args;
  args.event = id;
  args.flags = flags;
  if (session->post(context, Op::kEventCreate, args) == 0) {
    std::unique_lock lock(session->objects);
    session->events.remove(id);
    return session->lost();
  }
  *handle = handle_of<CUevent>(id);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  Session* session;
  EventRef event;
  if (CUresult r = look_up(handle, &session, &event); r != CUDA_SUCCESS) return r;
  graph::forget_event(handle);
  wire::EventDestroyArgs args;
  args.event = event.id;
  std::lock_guard in_order(session->channel().lock());  // nobody names it after this record
  const uint64_t number = session->post_locked(event->context, Op::kEventDestroy, args, {},
                                               protocol::kNoReply, nullptr);
  if (number == 0) return session->lost();
  std::unique_lock lock(session->objects);
  session->events.remove(args.event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  Event* event = session->events.find(id_of(handle));
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, stream_handle, &stream); r != CUDA_SUCCESS)
    return r;
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching_events()) [[unlikely]] {
    const auto taken = graph::capture_record(shim::key_of(*context, stream), handle, flags != 0);
    if (taken.has_value()) return *taken;
  }
  if (flags != CU_EVENT_RECORD_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;  // EXTERNAL is for streams that are being captured
  if (event->shared.load(std::memory_order_relaxed)) [[unlikely]]
    return shim::record_shared(*session, context, id_of(handle), *event, stream);
  wire::EventRecordArgs args;
  args.event = id_of(handle);
  args.stream = stream.id;
  session->pace(stream);
  std::lock_guard lock(session->channel().lock());
  const uint64_t number =
      session->post_locked(context, Op::kEventRecord, args, {}, protocol::kNoReply, &stream);
  if (number == 0) return session->lost();
  event->set_recorded(stream.id, number);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return driver::cuEventRecordWithFlags(handle, stream, 0);
}

CUresult cuEventQuery(CUevent handle) {
  Session* session;
  EventRef event;
  if (CUresult r = look_up(handle, &session, &event); r != CUDA_SUCCESS) return r;
  if (CUresult r = graph::check_event_use(handle); r != CUDA_SUCCESS) return r;
  if (known_done(*session, *event.event)) return CUDA_SUCCESS;
  return ask_about<wire::EventQueryArgs>(*session, event, Op::kEventQuery);
}

CUresult cuEventSynchronize(CUevent handle) {
  Session* session;
  EventRef event;
  if (CUresult r = look_up(handle, &session, &event); r != CUDA_SUCCESS) return r;
  if (CUresult r = graph::check_event_use(handle); r != CUDA_SUCCESS) return r;
  CUresult result = CUDA_SUCCESS;
  if (!known_done(*session, *event.event) || session->output().prints()) {
    result = session->show_output(
        ask_about<wire::EventSynchronizeArgs>(*session, event, Op::kEventSynchronize));
  }
  session->pools()->synchronised();
  return result;
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  Session* session;
  EventRef start, end;
  if (CUresult r = look_up(start_handle, &session, &start); r != CUDA_SUCCESS) return r;
  if (CUresult r = look_up(end_handle, &session, &end); r != CUDA_SUCCESS) return r;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (start->recorded.load(std::memory_order_relaxed) == 0 ||
      end->recorded.load(std::memory_order_relaxed) == 0 ||
      ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 ||
      start->context != end->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const CUevent each : {start_handle, end_handle}) {
    if (CUresult r = graph::check_captured(each); r != CUDA_SUCCESS) return r;
  }
  wire::EventElapsedArgs args;
  args.start = start.id;
  args.end = end.id;
  wire::EventElapsedReply answer;
  const CUresult result = session->ask(start->context, Op::kEventElapsed, args, &answer);
  if (result == CUDA_SUCCESS) *milliseconds = answer.milliseconds;
  return result;
}

CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle) {
  if (green::Green* const view = green::find_view(handle)) [[unlikely]]
    return green::record(view, event_handle);
  Session* session;
  Context* context;
  EventRef event;
  if (CUresult r = look_up(handle, event_handle, &session, &context, &event); r != CUDA_SUCCESS)
    return r;
  if (event->context != context) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult r = graph::check_context_work(handle, nullptr); r != CUDA_SUCCESS) return r;
  graph::forget_event(event_handle);
  if (event->shared.load(std::memory_order_relaxed)) [[unlikely]]
    return shim::record_shared_behind_all(*session, context, event.id, *event.event);
  wire::ContextRecordEventArgs args;
  args.event = event.id;
  std::lock_guard in_order(session->channel().lock());
  const uint64_t number =
      session->post_locked(context, Op::kContextRecordEvent, args, {}, protocol::kNoReply, nullptr);
  if (number == 0) return session->lost();
  session->note_context_work(context, number);
  event->set_recorded(0, number);  // of no stream
  return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext handle, CUevent event_handle) {
  if (green::Green* const view = green::find_view(handle)) [[unlikely]]
    return green::wait(view, event_handle);
  Session* session;
  Context* context;
  EventRef event;
  if (CUresult r = look_up(handle, event_handle, &session, &context, &event); r != CUDA_SUCCESS)
    return r;
  if (CUresult r = graph::check_context_work(handle, event_handle); r != CUDA_SUCCESS) return r;
  if (event->shared.load(std::memory_order_relaxed)) [[unlikely]]
    return shim::wait_everywhere_for_shared(*session, context, event.id);
  wire::ContextWaitEventArgs args;
  args.event = event.id;
  std::lock_guard in_order(session->channel().lock());
  const uint64_t number =
      session->post_locked(context, Op::kContextWaitEvent, args, {}, protocol::kNoReply, nullptr);
  if (number == 0) return session->lost();
  session->note_work_everywhere(context, number);
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
