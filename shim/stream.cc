// Streams: cuStream*.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>

#include <cuda.h>
#include <cudaProfiler.h>

#include "api/default_stream.h"
#include "driver_functions.h"
#include "shim/capture_hooks.h"
#include "shim/share.h"

namespace vgpu::driver {

using shim::Context;
using shim::create_stream;
using shim::destroy_stream;
using shim::enter;
using shim::Event;
using shim::find_any_stream;
using shim::find_stream;
using shim::handle_of;
using shim::id_of;
using shim::kLegacyStreamId;
using shim::Progress;
using shim::Session;
using shim::Stream;
using shim::StreamRef;
using shim::synchronize_stream;

namespace {

CUresult look_up(CUstream handle, Session** session, Context** context, StreamRef* stream) {
  if (CUresult r = enter(session, context); r != CUDA_SUCCESS) return r;
  return find_any_stream(**session, handle, stream, context);
}

StreamAttributes* attributes_of(Context* context, const StreamRef& stream) {
  return stream.stream == nullptr ? &context->legacy_attributes : &stream.stream->attributes;
}

int priority_of(const StreamRef& stream) {
  return stream.stream == nullptr ? 0 : stream.stream->priority;
}

}  // namespace

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned int flags, int priority) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (green::Green* const view = shim::current_view()) [[unlikely]]
    return green::add_stream(view, flags, priority, handle);
  if (handle == nullptr || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int least = 0, greatest = 0;
  if (CUresult r = cuCtxGetStreamPriorityRange(&least, &greatest); r != CUDA_SUCCESS) return r;
  priority = std::clamp(priority, greatest, least);  // lower numbers go first
  StreamRef stream;
  const CUresult result = create_stream(*session, context, flags, priority, false, &stream);
  if (result == CUDA_SUCCESS) *handle = handle_of<CUstream>(stream.id);
  return result;
}

CUresult cuStreamCreate(CUstream* handle, unsigned int flags) {
  return driver::cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  const StreamRef stream = {id_of(handle), session->streams.find(id_of(handle))};
  if (stream.stream == nullptr) return green::lost_stream(handle);
  green::forget_stream(handle);
  graph::forget_stream(shim::key_of(*stream.stream->context, stream));
  return destroy_stream(*session, stream);
}

CUresult cuStreamSynchronize(CUstream handle) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (CUresult r = shim::check_stream_use(*context, stream); r != CUDA_SUCCESS) return r;
  const CUresult result = synchronize_stream(*session, context, stream);
  session->pools()->synchronised();
  return result;
}

CUresult cuStreamQuery(CUstream handle) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (CUresult r = shim::check_stream_use(*context, stream); r != CUDA_SUCCESS) return r;
  Progress& progress = stream.stream == nullptr ? context->legacy : stream.stream->progress;
  if (progress.idle()) return CUDA_SUCCESS;
  wire::StreamQueryArgs args;
  args.stream = stream.id;
  protocol::Reply reply;
  uint64_t number = 0;
  const CUresult result = session->call(context, Op::kStreamQuery, args, &reply, {}, &number);
  if (result == CUDA_SUCCESS) Progress::raise(progress.completed, number);
  return result;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  StreamRef stream;
  if (CUresult r = find_stream(*session, context, handle, &stream); r != CUDA_SUCCESS) return r;
  Event* event = session->events.find(id_of(event_handle));
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (graph::watching_events()) [[unlikely]] {
    const auto taken =
        graph::capture_wait(shim::key_of(*context, stream), event_handle, flags != 0);
    if (taken.has_value()) return *taken;
  }
  if (flags != CU_EVENT_WAIT_DEFAULT)
    return CUDA_ERROR_INVALID_VALUE;  // EXTERNAL is for streams that are being captured
  if (event->shared.load(std::memory_order_relaxed)) [[unlikely]]
    return shim::wait_for_shared(*session, context, id_of(event_handle), stream);
  if (event->recorded.load(std::memory_order_relaxed) == 0)
    return CUDA_SUCCESS;  // never recorded: nothing to wait for
  wire::StreamWaitEventArgs args;
  args.stream = stream.id;
  args.event = id_of(event_handle);
  session->pace(stream);
  Event::Record record;
  {
    std::lock_guard lock(session->channel().lock());
    if (session->post_locked(context, Op::kStreamWaitEvent, args, {}, protocol::kNoReply,
                             &stream) == 0)
      return session->lost();
    record = event->last_record();  // what the wait is for: a later one needs the lock, too
  }
  session->pools().note_wait(*context, stream, *event->context, record);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags =
      stream.stream == nullptr ? static_cast<unsigned>(CU_STREAM_DEFAULT) : stream.stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = priority_of(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The legacy stream of a context: an id that no created stream has.
  *id = stream.stream == nullptr ? (context->unique_id << 32) | kLegacyStreamId
                                 : stream.stream->unique_id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* out) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = green::context_of(handle, context->handle());
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream to_handle, CUstream from_handle) {
  Session* session;
  Context *to_context, *from_context;
  StreamRef to, from;
  if (CUresult r = look_up(to_handle, &session, &to_context, &to); r != CUDA_SUCCESS) return r;
  if (CUresult r = look_up(from_handle, &session, &from_context, &from); r != CUDA_SUCCESS)
    return r;
  if (to_context != from_context) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(session->objects);
  if (!session->still_there(to.id) || !session->still_there(from.id))
    return CUDA_ERROR_INVALID_HANDLE;
  *attributes_of(to_context, to) = *attributes_of(from_context, from);
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID which, CUstreamAttrValue* value) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(session->objects);
  if (!session->still_there(stream.id)) return CUDA_ERROR_INVALID_HANDLE;
  return attributes_of(context, stream)->get(which, priority_of(stream), value);
}

CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID which,
                              const CUstreamAttrValue* value) {
  Session* session;
  Context* context;
  StreamRef stream;
  if (CUresult r = look_up(handle, &session, &context, &stream); r != CUDA_SUCCESS) return r;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(session->objects);
  if (!session->still_there(stream.id)) return CUDA_ERROR_INVALID_HANDLE;
  return attributes_of(context, stream)->set(which, priority_of(stream), *value);
}

}  // namespace vgpu::driver
