// Looking up streams.
// SPDX-License-Identifier: Apache-2.0
#include "shim/stream_table.h"

#include <mutex>

namespace vgpu::shim {
namespace {

CUresult thread_stream(Session& session, Context* context, StreamRef* stream) {
  ThreadState* state = thread_state();
  if (state == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  for (const ThreadState::DefaultStream& known : state->default_streams) {
    if (known.context == context && known.context_life == context->unique_id) {
      *stream = {known.id, known.stream};
      return CUDA_SUCCESS;
    }
  }
  if (CUresult r = create_stream(session, context, CU_STREAM_DEFAULT, 0, true, stream);
      r != CUDA_SUCCESS)
    return r;
  state->default_streams.push_back({context, context->unique_id, stream->id, stream->stream});
  return CUDA_SUCCESS;
}

}  // namespace

CUresult find_stream(Session& session, Context* context, CUstream handle, StreamRef* stream) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    *stream = StreamRef();
    const green::Green* const view = current_view();
    if (view == nullptr || context != current_context()) [[likely]]
      return CUDA_SUCCESS;
    *stream = {id_of(view->default_stream), session.streams.find(id_of(view->default_stream))};
    return stream->stream != nullptr ? CUDA_SUCCESS : green::lost_stream(handle);
  }
  // A green context has one default stream for all threads.
  if (handle == CU_STREAM_PER_THREAD && current_view() != nullptr) [[unlikely]]
    return green::lost_stream(handle);
  if (handle == CU_STREAM_PER_THREAD) return thread_stream(session, context, stream);
  Stream* found = session.streams.find(id_of(handle));
  if (found == nullptr || found->context != context) return green::lost_stream(handle);
  *stream = {id_of(handle), found};
  return CUDA_SUCCESS;
}

CUresult find_any_stream(Session& session, CUstream handle, StreamRef* stream, Context** context) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return find_stream(session, *context, handle, stream);
  }
  Stream* found = session.streams.find(id_of(handle));
  if (found == nullptr) return green::lost_stream(handle);
  *stream = {id_of(handle), found};
  *context = found->context;
  return CUDA_SUCCESS;
}

namespace {

// The guest's half of a stream; out of the table again with forget_half().
CUresult insert_half(Session& session, Context* context, uint32_t flags, int priority,
                     bool per_thread, StreamRef* stream) {
  std::unique_lock lock(session.objects);
  if (session.full(protocol::GuestLimit::kStreams, session.streams.size())) [[unlikely]]
    return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t id = session.streams.insert(context, flags, priority,
                                             session.contexts().next_unique_id(), per_thread);
  if (id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *stream = {id, session.streams.find(id)};
  stream->stream->progress.submitted.store(context->gate.load(std::memory_order_relaxed),
                                           std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

void forget_half(Session& session, const StreamRef& stream) {
  std::unique_lock lock(session.objects);
  session.streams.remove(stream.id);
}

}  // namespace

CUresult create_stream(Session& session, Context* context, const green::Green& green, int priority,
                       StreamRef* stream) {
  CUresult r = insert_half(session, context, CU_STREAM_NON_BLOCKING, priority, false, stream);
  if (r != CUDA_SUCCESS) return r;
  stream->stream->sms = green.resource.sm.smCount;
  wire::GreenStreamCreateArgs args;
  args.stream = stream->id;
  args.green = green.partition;
  args.priority = priority;
  r = session.call(context, Op::kGreenStreamCreate, args);
  if (r != CUDA_SUCCESS) {
    forget_half(session, *stream);
    return r;
  }
  context->unordered_streams.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult create_stream(Session& session, Context* context, uint32_t flags, int priority,
                       bool per_thread, StreamRef* stream) {
  CUresult r = insert_half(session, context, flags, priority, per_thread, stream);
  if (r != CUDA_SUCCESS) return r;
  wire::StreamCreateArgs args;
  args.stream = stream->id;
  args.flags = flags;
  args.priority = priority;
  if (session.post(context, Op::kStreamCreate, args) == 0) {
    forget_half(session, *stream);
    return session.lost();
  }
  if (per_thread || (flags & CU_STREAM_NON_BLOCKING) != 0) {
    context->unordered_streams.fetch_add(1, std::memory_order_relaxed);
  }
  return CUDA_SUCCESS;
}

CUresult destroy_stream(Session& session, const StreamRef& stream) {
  wire::StreamDestroyArgs args;
  args.stream = stream.id;
  std::lock_guard in_order(session.channel().lock());  // nobody names it after this record
  Context* context = stream.stream->context;  // of this stream, or all_there() will not find it
  if (session.post_locked(context, Op::kStreamDestroy, args, {}, protocol::kNoReply, nullptr) ==
      0) {
    return session.lost();
  }
  if (stream.stream->per_thread || (stream.stream->flags & CU_STREAM_NON_BLOCKING) != 0) {
    context->unordered_streams.fetch_sub(1, std::memory_order_relaxed);
  }
  std::unique_lock lock(session.objects);
  session.streams.remove(args.stream);
  return CUDA_SUCCESS;
}

CUresult synchronize_stream(Session& session, Context* context, const StreamRef& stream) {
  Progress& progress = stream.stream == nullptr ? context->legacy : stream.stream->progress;
  if (progress.idle() && !session.output().prints()) return CUDA_SUCCESS;
  wire::StreamSynchronizeArgs args;
  args.stream = stream.id;
  protocol::Reply reply;
  uint64_t number = 0;
  const CUresult result = session.call(context, Op::kStreamSynchronize, args, &reply, {}, &number);
  if (result == CUDA_SUCCESS) Progress::raise(progress.completed, number);
  return session.show_output(result);
}

void end_default_streams(ThreadState* state) {
  Session* session = Process::session();
  if (session == nullptr || session->state() != CUDA_SUCCESS) return;
  for (const ThreadState::DefaultStream& known : state->default_streams) {
    if (known.context->active.load(std::memory_order_acquire) &&
        known.context_life == known.context->unique_id) {
      (void)destroy_stream(*session, {known.id, known.stream});
    }
  }
}

}  // namespace vgpu::shim
