// Contexts: cuCtx* and cuDevicePrimaryCtx*.
// SPDX-License-Identifier: Apache-2.0
#include "shim/context.h"

#include <cuda.h>
#include <cudaProfiler.h>

#include <mutex>

#include "api/cudart/context_storage.h"
#include "api/graph/capture.h"
#include "api/green/affinity.h"
#include "driver_functions.h"
#include "shim/device.h"
#include "shim/module_table.h"
#include "shim/process.h"
#include "shim/share.h"

namespace vgpu::driver {

using shim::attribute;
using shim::Context;
using shim::current_context;
using shim::drop_current_context;
using shim::enter;
using shim::Event;
using shim::forget_modules;
using shim::pop_current_context;
using shim::Process;
using shim::push_current_context;
using shim::Session;
using shim::set_current_context;
using shim::Stream;

namespace {

// Known flags, and at most one way of waiting.
bool flags_valid(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  return (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) == 0 &&
         (schedule & (schedule - 1)) == 0;
}

// What the application made in a context goes with it.
void forget_objects(Session& session, Context* context) {
  cudart::run_context_destructors(context->handle());
  graph::forget_context(context->handle());
  if (context->primary) green::forget_context(context->handle());
  std::vector<uint64_t> streams, events;
  {
    std::lock_guard in_order(session.channel().lock());  // as for destroying one by one
    std::unique_lock lock(session.objects);
    session.streams.for_each([&](uint64_t id, Stream& stream) {
      if (stream.context == context) streams.push_back(id);
    });
    session.events.for_each([&](uint64_t id, Event& event) {
      if (event.context == context) events.push_back(id);
    });
    for (const uint64_t id : streams) session.streams.remove(id);
    for (const uint64_t id : events) session.events.remove(id);
  }
  forget_modules(session, context);
  session.arrays().forget(context);
  session.host_calls().forget(context);
  context->unordered_streams.store(0, std::memory_order_relaxed);
  session.memory().free_all_of(context->id);
  shim::close_opened(session, context);
  shim::count_heap(session, context, 0);
  session.contexts().drop_peers(context);
}

CUresult ask_for_end(Session& session, Context* context) {
  if (context->progress.idle() && !session.output().prints()) return CUDA_SUCCESS;
  wire::ContextSynchronizeArgs args;
  args.context = context->id;
  protocol::Reply reply;
  uint64_t number = 0;
  const CUresult result = session.call(context, Op::kContextSynchronize, args, &reply, {}, &number);
  if (result == CUDA_SUCCESS) session.note_context_done(context, number);
  return session.show_output(result);
}

CUresult synchronize(Session& session, Context* context) {
  const CUresult result = ask_for_end(session, context);
  session.pools()->synchronised();
  return result;
}

// Under primary_lives(): ends a life of the primary context, when its work is done, with all in it.
CUresult reset_primary(Session& session, Context* context) {
  wire::PrimaryResetArgs args;
  args.context = context->id;
  // No record may name it behind this one, if it ends: see Session::bind.
  context->named.store(false, std::memory_order_relaxed);
  wire::PrimaryResetReply answer;
  const CUresult result = session.ask(nullptr, Op::kPrimaryReset, args, &answer);
  if (answer.closed != 0) {
    session.guest_device(context->device).closed();
  } else {
    context->named.store(true, std::memory_order_relaxed);
  }
  session.contexts().set_active(context, false);
  {
    std::lock_guard lock(session.channel().lock());
    session.forget_bound();
  }
  forget_objects(session, context);
  // Memory of pools is of no context; without any the device starts afresh.
  if (session.contexts().active_count(context->device) == 0)
    session.pools()->forget_memory(context->device);
  context->unique_id = session.contexts().next_unique_id();
  return session.show_output(result);
}

CUresult primary_of(CUdevice device, Session** session, Context** context) {
  if (CUresult r = enter(session); r != CUDA_SUCCESS) return r;
  *context = (*session)->contexts().primary(device);
  return *context == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult create(CUcontext* out, unsigned sms, unsigned flags, CUdevice device) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  if (out == nullptr || !flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  if (session->device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  // Whose end may close the device.
  std::lock_guard life(session->contexts().primary_lives(device));
  if (CUresult r = session->guest_device(device).open(); r != CUDA_SUCCESS) return r;
  Context* context = session->contexts().add_created(device, flags);
  if (context == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  wire::ContextCreateArgs args;
  args.context = context->id;
  args.device = static_cast<uint32_t>(device);
  args.flags = flags;
  args.slot = context->slot;
  args.sms = sms;
  wire::ContextCreateReply answer;
  if (CUresult r = session->ask(nullptr, Op::kContextCreate, args, &answer); r != CUDA_SUCCESS) {
    session->contexts().release_slot(context);
    return r;
  }
  context->sms.store(answer.sms, std::memory_order_relaxed);
  session->contexts().set_active(context, true);
  push_current_context(context);
  *out = context->handle();
  return CUDA_SUCCESS;
}

// The green context that such a handle means; null: none.
green::Green* view_of(CUcontext handle) {
  return handle == nullptr ? shim::current_view() : green::find_view(handle);
}

CUresult find_context(CUcontext handle, Context** context) {
  Session* session;
  if (handle == nullptr) return enter(&session, context);
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  *context = session->contexts().find_living(handle);
  if (*context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return (*context)->active.load(std::memory_order_acquire) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  Session* session;
  Context* context;
  if (CUresult r = primary_of(device, &session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard life(session->contexts().primary_lives(device));
  if (context->retains == 0) {
    if (CUresult r = session->guest_device(device).open(); r != CUDA_SUCCESS) return r;
    if (session->name_primary(context) == 0) return session->lost();
    session->contexts().set_active(context, true);
  }
  ++context->retains;
  *out = context->handle();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Session* session;
  Context* context;
  if (CUresult r = primary_of(device, &session, &context); r != CUDA_SUCCESS) return r;
  std::lock_guard life(session->contexts().primary_lives(device));
  if (context->retains == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context->retains != 0) return CUDA_SUCCESS;
  return reset_primary(*session, context);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Session* session;
  Context* context;
  if (CUresult r = primary_of(device, &session, &context); r != CUDA_SUCCESS) return r;
  std::lock_guard life(session->contexts().primary_lives(device));
  if (!context->active.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  context->retains = 0;
  return reset_primary(*session, context);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = primary_of(device, &session, &context); r != CUDA_SUCCESS) return r;
  if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags.store(flags, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  Session* session;
  Context* context;
  if (CUresult r = primary_of(device, &session, &context); r != CUDA_SUCCESS) return r;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags.load(std::memory_order_relaxed);
  *active = context->active.load(std::memory_order_acquire) ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  return create(out, 0, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* params, int count, unsigned int flags,
                        CUdevice device) {
  unsigned sms = 0;
  const CUresult r = green::read_affinity(params, count, &sms);
  return r != CUDA_SUCCESS ? r : create(out, sms, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags,
                        CUdevice device) {
  unsigned sms = 0;
  const CUresult r = green::read_affinity(params, &sms);
  return r != CUDA_SUCCESS ? r : create(out, sms, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  Context* context = session->contexts().find(handle);
  if (context == nullptr || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  if (!session->contexts().set_active(context, false)) return CUDA_ERROR_INVALID_CONTEXT;
  wire::ContextDestroyArgs args;
  args.context = context->id;
  const CUresult result = session->call(nullptr, Op::kContextDestroy, args);
  {
    std::lock_guard lock(session->channel().lock());
    session->forget_bound();
  }
  forget_objects(*session, context);
  drop_current_context(context);
  session->contexts().release_slot(context);
  return session->show_output(result);
}

CUresult cuCtxAttach(CUcontext* out, unsigned int flags) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  context->uses.fetch_add(1, std::memory_order_relaxed);
  *out = context->handle();
  return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle) {
  Session* session;
  if (CUresult r = enter(&session); r != CUDA_SUCCESS) return r;
  Context* context = current_context();
  if (context == nullptr || context->handle() != handle || context->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  const bool last = context->uses.fetch_sub(1, std::memory_order_relaxed) == 1;
  return last ? driver::cuCtxDestroy_v2(handle) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* out) {
  if (Process::session() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = shim::current_handle();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = nullptr;
  if (handle != nullptr) {
    context = session->contexts().find_living(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  }
  set_current_context(context, green::find_view(handle));
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  Session* session = Process::session();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = handle == nullptr ? nullptr : session->contexts().find_living(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  push_current_context(context, green::find_view(handle));
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  if (Process::session() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  const CUcontext handle = shim::current_handle();
  if (pop_current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (Process::session() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  Context* context = current_context();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  if (handle == nullptr) return driver::cuCtxGetDevice(device);
  Context* context;
  if (CUresult r = find_context(handle, &context); r != CUDA_SUCCESS) return r;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  Context* context;
  if (CUresult r = find_context(nullptr, &context); r != CUDA_SUCCESS) return r;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = context->flags.load(std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  Context* context;
  if (CUresult r = find_context(nullptr, &context); r != CUDA_SUCCESS) return r;
  if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  context->flags.store(flags, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  Context* context;
  if (CUresult r = find_context(handle, &context); r != CUDA_SUCCESS) return r;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const green::Green* const view = view_of(handle);
  *id = view != nullptr ? view->unique_id : uint64_t{context->unique_id};
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  Context* context;
  if (CUresult r = find_context(handle, &context); r != CUDA_SUCCESS) return r;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = 3020;  // what every context made by the _v2 and later entry points says
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  const bool supported = attribute(*session->device(context->device),
                                   CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED) != 0;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = supported ? -5 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  Session* session;
  Context* context;
  if (CUresult r = enter(&session, &context); r != CUDA_SUCCESS) return r;
  if (green::Green* const view = shim::current_view()) [[unlikely]]
    return green::synchronize(view);
  if (CUresult r = graph::check_context_use(context->handle()); r != CUDA_SUCCESS) return r;
  return synchronize(*session, context);
}

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  if (handle == nullptr) return driver::cuCtxSynchronize();
  Context* context;
  if (CUresult r = find_context(handle, &context); r != CUDA_SUCCESS) return r;
  Session* session = Process::session();
  const int32_t sticky = session->channel().semaphores().sticky(context->slot);
  if (sticky != 0) return session->show_output(static_cast<CUresult>(sticky));
  if (green::Green* const view = view_of(handle)) return green::synchronize(view);
  if (CUresult r = graph::check_context_use(context->handle()); r != CUDA_SUCCESS) return r;
  return synchronize(*session, context);
}

}  // namespace vgpu::driver
