// Contexts: binding, creating, waiting for, limits.
// SPDX-License-Identifier: Apache-2.0
#include "op.h"
#include "protocol/limits.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

Context* Session::add_context(uint64_t id, CUcontext handle, uint32_t slot, bool primary) {
  Context& context = contexts_.emplace_back();
  context.id = id;
  context.handle = handle;
  context.slot = slot;
  context.primary = primary;
  context.legacy.handle = CU_STREAM_LEGACY;
  context.legacy.context = &context;
  channel_->semaphores().clear_sticky(slot);
  return &context;
}

Context* Session::find_context(uint64_t id) {
  for (Context& context : contexts_) {
    if (context.alive && context.id == id) return &context;
  }
  return nullptr;
}

CUresult Session::bind(Context* context) {
  const CUresult result = driver().cuCtxSetCurrent(context->handle);
  if (result == CUDA_SUCCESS) bound_ = context;
  return result;
}

// Ends what belongs to the context; its driver object is the caller's.
void Session::forget_context(Context* context) {
  if (slab_sequence_ != 0) flush_slab();
  std::vector<uint64_t> ids;
  streams_.for_each([&](uint64_t id, Stream& each) {
    if (each.context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) (void)driver().cuStreamDestroy_v2(streams_.take(id)->handle);
  ids.clear();
  events_.for_each([&](uint64_t id, EventEntry& each) {
    if (each.event->context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) events_.take(id);
  ids.clear();
  modules_.modules.for_each([&](uint64_t id, std::shared_ptr<Module>& each) {
    if (each->context == context && each->ready.load(std::memory_order_acquire)) ids.push_back(id);
  });
  for (uint64_t id : ids) {
    (void)driver().cuModuleUnload((*modules_.modules.find(id))->module);
    modules_.modules.take(id);
  }
  context->dirty.clear();
  context->legacy.dirty = false;
}

// A primary context that was reset begins a new life: libraries outlive it, their variables do not.
CUresult Session::revive(Context* context) {
  if (!context->was_reset) return CUDA_SUCCESS;
  context->was_reset = false;
  Context* before = bound_;
  CUresult result = bind(context);
  modules_.libraries.for_each([&](uint64_t, std::shared_ptr<Module>& each) {
    // acquire: partner is the helper thread's release once the library is filled.
    if (each->context != context || !each->ready.load(std::memory_order_acquire)) return;
    if (result == CUDA_SUCCESS) result = renew_library(driver(), each.get());
  });
  if (before != nullptr && before != context) (void)bind(before);
  return result;
}

bool handle_ContextBind(Session& session, const wire::ContextBindArgs& args, const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  return session.forgotten(record, session.bind(context));
}

bool handle_ContextCreate(Session& session, const wire::ContextCreateArgs& args,
                          const Record& record) {
  if (args.device != 0) return session.malformed(record, "no such device");
  if (args.slot >= protocol::kContextSlots) return session.malformed(record, "context slot");
  if (args.context == 0 || session.find_context(args.context) != nullptr) {
    return session.malformed(record, "context id in use");
  }
  Context* before = session.bound();
  CUcontext handle = nullptr;
  const CUresult result =
      session.driver().cuCtxCreate_v2(&handle, args.flags, session.config().device);
  if (result == CUDA_SUCCESS) {
    Context* context = session.add_context(args.context, handle, args.slot, false);
    // The driver has made it current; the guest says itself when it wants to be in it.
    (void)session.bind(before != nullptr ? before : context);
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_ContextDestroy(Session& session, const wire::ContextDestroyArgs& args,
                           const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr || context->primary) return session.malformed(record, "unknown context");
  // Waiting threads use the context's events, so it goes once they are through.
  if (Context* before = session.bound(); session.bind(context) == CUDA_SUCCESS) {
    session.forget_context(context);
    if (before != context && before != nullptr) (void)session.bind(before);
  }
  context->alive = false;
  const CUresult result = session.driver().cuCtxDestroy_v2(context->handle);
  if (session.bound() == context) session.unbind();
  return session.complete(record, result, nullptr, 0);
}

bool handle_PrimaryRetain(Session& session, const wire::PrimaryRetainArgs& args,
                          const Record& record) {
  if (args.device != 0) return session.malformed(record, "no such device");
  if (args.slot >= protocol::kContextSlots) return session.malformed(record, "context slot");
  if (Context* known = session.find_context(args.context); known != nullptr) {
    if (!known->primary) return session.malformed(record, "context id in use");
    return session.complete(record, session.revive(known), nullptr, 0);
  }
  if (args.context == 0) return session.malformed(record, "context id");
  Context* context = session.add_context(args.context, session.config().primary, args.slot, true);
  CUresult result = CUDA_SUCCESS;
  if (session.bound() == nullptr) result = session.bind(context);
  return session.complete(record, result, nullptr, 0);
}

// The driver's context stays: the channel's slabs are registered in it and the guest's memory is
// mapped for its device. What the guest made in it goes.
bool handle_PrimaryReset(Session& session, const wire::PrimaryResetArgs& args,
                         const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr || !context->primary) return session.malformed(record, "unknown context");
  Context* before = session.bound();
  CUresult result = session.bind(context);
  if (result == CUDA_SUCCESS) result = session.driver().cuCtxSynchronize();
  if (result == CUDA_SUCCESS) session.forget_context(context);
  context->was_reset = true;
  if (before != nullptr && before != context) (void)session.bind(before);
  return session.complete(record, result, nullptr, 0);
}

bool handle_ContextSynchronize(Session& session, const wire::ContextSynchronizeArgs& args,
                               const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  std::vector<Mark> marks;
  const CUresult result = session.noted(session.mark_all(&marks), context);
  if (result != CUDA_SUCCESS) {
    for (const Mark& mark : marks) mark.context->events.give(mark.event);
    return session.complete(record, result, nullptr, 0);
  }
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  session.answer_after(std::move(marks), record.reply(), context);
  return true;
}

bool handle_ContextSetLimit(Session& session, const wire::ContextSetLimitArgs& args,
                            const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  Context* before = session.bound();
  CUresult result = session.bind(context);
  if (result == CUDA_SUCCESS) {
    result = session.driver().cuCtxSetLimit(static_cast<CUlimit>(args.limit), args.value);
  }
  if (before != nullptr) (void)session.bind(before);
  return session.complete(record, result, nullptr, 0);
}

bool handle_ContextGetLimit(Session& session, const wire::ContextGetLimitArgs& args,
                            const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  Context* before = session.bound();
  size_t value = 0;
  CUresult result = session.bind(context);
  if (result == CUDA_SUCCESS) {
    result = session.driver().cuCtxGetLimit(&value, static_cast<CUlimit>(args.limit));
  }
  if (before != nullptr) (void)session.bind(before);
  wire::ContextGetLimitReply reply;
  reply.value = value;
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace vgpu::server
