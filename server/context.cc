// Contexts: binding, creating, waiting for, limits.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "op.h"
#include "protocol/limits.h"
#include "server/log.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

Context* Session::add_context(uint64_t id, CUcontext handle, uint32_t slot, uint32_t device,
                              bool primary) {
  Context& context = contexts_.emplace_back(config_.flow);
  context.id = id;
  context.handle = handle;
  context.slot = slot;
  context.device = device;
  context.primary = primary;
  context.legacy.handle = CU_STREAM_LEGACY;
  context.legacy.blocking = true;
  context.legacy.legacy = true;
  context.legacy.hold_word = protocol::hold_word(kLegacyStream);
  channel_->semaphores().clear_sticky(slot);
  // release: partner is home_context().
  if (handle != nullptr && handle == home())
    home_context_.store(&context, std::memory_order_release);
  if (primary) primaries_[device].store(&context, std::memory_order_release);
  return &context;
}

Context* Session::find_known_context(uint64_t id) {
  for (Context& context : contexts_) {
    if (context.id == id && context.state.load(std::memory_order_acquire) != ContextState::kGone) {
      return &context;
    }
  }
  return nullptr;
}

Context* Session::find_context(uint64_t id) {
  Context* found = find_known_context(id);
  return found != nullptr && found->alive() ? found : nullptr;
}

bool Session::has_primary(uint32_t device) const {
  return std::any_of(contexts_.begin(), contexts_.end(), [device](const Context& each) {
    return each.primary && each.device == device && each.alive();
  });
}

bool Session::may_close(const Context& primary) const {
  if (is_packed()) return false;
  const bool alone = std::none_of(contexts_.begin(), contexts_.end(), [&](const Context& each) {
    return &each != &primary && each.device == primary.device &&
           each.state.load(std::memory_order_acquire) != ContextState::kGone;
  });
  return alone && primary.device != 0 &&
         memory_->on(primary.device)->mode() == protocol::AllocatorMode::kReserved;
}

CUresult Session::bind(Context* context) {
  const CUresult result = driver().cuCtxSetCurrent(context->handle);
  if (result == CUDA_SUCCESS) bound_ = context;
  return result;
}

Context* Session::spare() {
  const auto sound = [this](const Context& context) {
    // relaxed: who comes too late is told by the driver.
    return context.alive() && context.handle != home() &&
           !context.faulted.load(std::memory_order_relaxed);
  };
  if (bound_ != nullptr && sound(*bound_)) return bound_;
  const auto found = std::find_if(contexts_.begin(), contexts_.end(), sound);
  return found == contexts_.end() ? nullptr : &*found;
}

void Session::unbind() {
  bound_ = nullptr;
  (void)driver().cuCtxSetCurrent(home());
}

Session::Remains Session::take_from(Context* context) {
  if (slab_sequence_ != 0) flush_slab();
  Remains remains;
  remains.peers = drop_peers(context);
  remains.device = context->device;
  remains.lanes = lane_ends(context);
  std::vector<uint64_t> ids;
  streams_.for_each([&](uint64_t id, Stream& each) {
    if (each.context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) {
    remains.streams.push_back(streams_.take(id));
    abandon_lane(remains.streams.back()->lane);
  }
  for (std::unique_ptr<Stream>* own : {&context->gathering, &context->gate}) {
    if (*own == nullptr) continue;
    abandon_lane((*own)->lane);
    remains.streams.push_back(std::move(*own));
  }
  if (!context->primary) abandon_lane(context->legacy.lane);  // the primary one's goes on after it
  ids.clear();
  events_.for_each([&](uint64_t id, EventEntry& each) {
    if (each.event->context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) {
    remains.events.push_back(events_.take(id));
    shares().remove(remains.events.back()->name);
  }
  ids.clear();
  modules_.modules.for_each([&](uint64_t id, std::shared_ptr<Module>& each) {
    if (each->context == context && each->ready.load(std::memory_order_acquire)) ids.push_back(id);
  });
  for (uint64_t id : ids) {
    remains.modules.push_back(*modules_.modules.take(id));
    forget_globals(memory_, remains.modules.back().get());
  }
  modules_.libraries.for_each([&](uint64_t, std::shared_ptr<Module>& each) {
    // acquire: partner is the helper thread's release once the library is filled.
    if (each->ready.load(std::memory_order_acquire)) forget_uses(memory_, each.get(), context);
  });
  ids.clear();
  graphs_.for_each([&](uint64_t id, GraphEntry& each) {
    if (each.graph->context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) remains.graphs.push_back(graphs_.take(id));
  ids.clear();
  graph_sources_.for_each([&](uint64_t id, GraphSourceEntry& each) {
    if (each.source->context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) remains.graph_sources.push_back(graph_sources_.take(id));
  ids.clear();
  links_.for_each([&](uint64_t id, LinkEntry& each) {
    if (each.link->context == context) ids.push_back(id);
  });
  for (uint64_t id : ids) remains.links.push_back(links_.take(id));
  remains.arrays = take_arrays(&arrays_, context);
  if (context->primary) remains.greens = greens_.take_of(context->device);
  context->heap.reset();
  context->dirty.clear();
  context->own_default.ahead.clear();
  context->own_default.departed.clear();
  context->legacy.dirty = false;
  return remains;
}

void Session::destroy_remains(Remains* remains) {
  remains->graphs.clear();
  remains->graph_sources.clear();
  remains->links.clear();
  remains->events.clear();
  for (const auto& stream : remains->streams) (void)driver().cuStreamDestroy_v2(stream->handle);
  remains->streams.clear();
  for (const Green& each : remains->greens) {
    sm_resources_.remove(each.resource);
    (void)driver().cuGreenCtxDestroy(each.handle);
  }
  remains->greens.clear();
  for (const auto& module : remains->modules) (void)driver().cuModuleUnload(module->module);
  remains->modules.clear();
  const uint64_t charged = remains->arrays.charged;
  destroy_arrays(driver(), &remains->arrays);
  memory_->on(remains->device)->give_back(charged);
  for (const auto& [user, owner] : remains->peers) {
    if (driver().cuCtxSetCurrent(user) == CUDA_SUCCESS)
      (void)driver().cuCtxDisablePeerAccess(owner);
  }
  remains->peers.clear();
}

// A primary context that was reset begins a new life: libraries outlive it, their variables do not.
CUresult Session::revive(Context* context) {
  if (!context->was_reset) return CUDA_SUCCESS;
  context->was_reset = false;
  Context* before = bound_;
  CUresult result = bind(context);
  modules_.libraries.for_each([&](uint64_t, std::shared_ptr<Module>& each) {
    // acquire: partner is the helper thread's release once the library is filled.
    if (result != CUDA_SUCCESS || !each->ready.load(std::memory_order_acquire)) return;
    forget_uses(memory_, each.get(), context);  // since it was reset
    result = renew_library(driver(), each.get(), context);
  });
  if (before != nullptr && before != context) (void)bind(before);
  return result;
}

bool handle_ContextBind(Session& session, const wire::ContextBindArgs& args, const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  return session.forgotten(record, session.bind(context));
}

namespace {

// The context is current when it is made. One with some of the SMs is told how many it has got.
CUresult make_context(const DriverTable& driver, const wire::ContextCreateArgs& args,
                      CUdevice device, CUcontext* context, wire::ContextCreateReply* answer) {
  if (args.sms == 0) return driver.cuCtxCreate_v2(context, args.flags, device);
  if (driver.cuCtxCreate_v3 == nullptr || driver.cuCtxGetExecAffinity == nullptr)
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  CUexecAffinityParam affinity = {};
  affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
  affinity.param.smCount.val = args.sms;
  CUresult result = driver.cuCtxCreate_v3(context, &affinity, 1, args.flags, device);
  if (result != CUDA_SUCCESS) return result;
  result = driver.cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT);
  if (result == CUDA_SUCCESS) answer->sms = affinity.param.smCount.val;
  return CUDA_SUCCESS;  // it is there, whatever is known of it
}

}  // namespace

// Making a context takes a driver many milliseconds, so a helper does it.
bool handle_ContextCreate(Session& session, const wire::ContextCreateArgs& args,
                          const Record& record) {
  Device* device = session.find_device(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  if (args.slot >= protocol::kContextSlots) return session.malformed(record, "context slot");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (args.context == 0 || session.find_known_context(args.context) != nullptr) {
    return session.malformed(record, "context id in use");
  }
  if (session.is_packed()) {
    log(Level::kWarn, "cuCtxCreate: a packed guest has no contexts of its own");
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  }
  Context* context = session.add_context(args.context, nullptr, args.slot, args.device, false);
  session.pool().post([&session, context, device, args, reply = record.reply()] {
    const DriverTable& driver = session.driver();
    wire::ContextCreateReply answer;
    const CUresult result = make_context(driver, args, device->number(), &context->handle, &answer);
    // The driver has put it on this thread's stack, where it is not wanted.
    CUcontext top = nullptr;
    if (result == CUDA_SUCCESS) (void)driver.cuCtxPopCurrent_v2(&top);
    // release: partner is Context::alive().
    context->state.store(result == CUDA_SUCCESS ? ContextState::kAlive : ContextState::kGone,
                         std::memory_order_release);
    session.channel().replies().complete_with(reply, result, answer);
  });
  return true;
}

// Its names are gone at once; a helper waits for its work and ends it.
bool handle_ContextDestroy(Session& session, const wire::ContextDestroyArgs& args,
                           const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr || context->primary) return session.malformed(record, "unknown context");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  auto remains = std::make_shared<Session::Remains>(session.take_from(context));
  context->state = ContextState::kGone;
  if (session.bound() == context) session.unbind();
  session.pool().post([&session, context, remains, reply = record.reply()] {
    for (const LanePoint& point : remains->lanes) session.lanes().wait(point);
    const DriverTable& driver = session.driver();
    (void)driver.cuCtxSetCurrent(context->handle);
    (void)driver.cuCtxSynchronize();
    session.destroy_remains(remains.get());
    context->use.close();  // whoever waits for its work is through now
    context->orphans.clear();
    context->events.release_all(driver);
    const CUresult result = driver.cuCtxDestroy_v2(context->handle);
    session.host_calls().give_all_of(context);
    if (session.prints()) session.publish_output();
    session.channel().replies().complete(reply, result);
  });
  return true;
}

// Making the context takes long, so a helper does it; later it is there already.
bool handle_DeviceOpen(Session& session, const wire::DeviceOpenArgs& args, const Record& record) {
  Device* device = session.config().devices->at(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  session.back_ahead(args.device);  // or the guest would have to ask for its first memory
  session.pool().post([&session, device, reply = record.reply()] {
    const CUresult result = device->open();
    (void)session.driver().cuCtxSetCurrent(session.home());
    session.channel().replies().complete(reply, result);
  });
  return true;
}

bool handle_PrimaryRetain(Session& session, const wire::PrimaryRetainArgs& args,
                          const Record& record) {
  const Device* device = session.find_device(args.device);
  if (device == nullptr) return session.malformed(record, "no such device");
  if (args.slot >= protocol::kContextSlots) return session.malformed(record, "context slot");
  if (Context* known = session.find_context(args.context); known != nullptr) {
    if (!known->primary || known->device != args.device)
      return session.malformed(record, "context id in use");
    return session.complete(record, session.revive(known), nullptr, 0);
  }
  if (args.context == 0) return session.malformed(record, "context id");
  if (session.has_primary(args.device))
    return session.malformed(record, "a second primary context");
  Context* context =
      session.add_context(args.context, device->primary(), args.slot, args.device, true);
  CUresult result = session.is_packed() ? session.own_default_stream(context) : CUDA_SUCCESS;
  context->state = result == CUDA_SUCCESS ? ContextState::kAlive : ContextState::kGone;
  if (session.bound() == nullptr && result == CUDA_SUCCESS) result = session.bind(context);
  return session.complete(record, result, nullptr, 0);
}

// What the guest made in it goes. The driver's context of the first device stays: the channel's
// slabs are registered in it. So do those that memory of the guest's is in; others end with it and
// the device is opened again when it is used next.
bool handle_PrimaryReset(Session& session, const wire::PrimaryResetArgs& args,
                         const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr || !context->primary) return session.malformed(record, "unknown context");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  Marks marks;  // a broken context has none: what runs there is past
  if (session.is_packed()) (void)session.noted(session.mark_all(&marks), context);
  auto remains = std::make_shared<Session::Remains>(session.take_from(context));
  const bool ends = session.may_close(*context);
  context->was_reset = true;
  if (ends) {
    context->state = ContextState::kGone;
    session.abandon_lane(context->legacy.lane);
    if (session.bound() == context) session.unbind();
  }
  session.pool().post(
      [&session, context, ends, remains, marks = std::move(marks), reply = record.reply()] {
        for (const LanePoint& point : remains->lanes) session.lanes().wait(point);
        const DriverTable& driver = session.driver();
        (void)driver.cuCtxSetCurrent(context->handle);
        CUresult result = CUDA_SUCCESS;
        if (session.is_packed()) {
          for (const MarkRef& mark : marks) {
            const CUresult each = session.wait(*mark);
            if (result == CUDA_SUCCESS) result = each;
          }
        } else {
          result = session.noted(driver.cuCtxSynchronize(), context);
        }
        session.destroy_remains(remains.get());
        if (ends) {
          session.channel().semaphores().clear_sticky(context->slot);
          context->use.close();
          context->orphans.clear();
          context->events.release_all(driver);
          (void)driver.cuCtxSetCurrent(session.home());
          session.config().devices->at(context->device)->close();
          session.host_calls().give_all_of(context);
        }
        if (session.prints()) session.publish_output();
        wire::PrimaryResetReply answer;
        answer.closed = ends ? 1 : 0;
        session.channel().replies().complete_with(reply, result, answer);
      });
  return true;
}

bool handle_ContextSynchronize(Session& session, const wire::ContextSynchronizeArgs& args,
                               const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  Context* before = session.bound();
  Marks marks;
  const CUresult result = session.noted(session.mark_context(context, &marks), context);
  if (before != nullptr && before != context) (void)session.bind(before);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  session.answer_after(std::move(marks), record.reply(), context);
  return true;
}

namespace {

// Charges the heap of kernels' malloc, but for what every context has of it; false: the quota does
// not reach.
bool charge_heap(Session& session, Context* context, uint64_t bytes,
                 std::shared_ptr<Charge>* charge) {
  DeviceMemory& memory = *session.memory().on(context->device);
  const uint64_t more = bytes - std::min(bytes, protocol::kHeapBytesFree);
  if (more == 0) return true;
  *charge = memory.charge_shared(more);
  if (*charge != nullptr || context->heap == nullptr) return *charge != nullptr;
  const uint64_t before = context->heap->bytes();
  context->heap.reset();  // the new one is instead of it
  *charge = memory.charge_shared(more);
  if (*charge == nullptr) context->heap = memory.charge_shared(before);
  return *charge != nullptr;
}

}  // namespace

namespace {

// The limits of a context that others have too only grow: each guest has at least what it asked
// for. The heap, of which one guest would pay for all, stays.
bool raise_limit(Session& session, Context* context, const wire::ContextSetLimitArgs& args,
                 const Record& record) {
  if (args.limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
    log(Level::kWarn, "cuCtxSetLimit: a packed guest cannot change the heap of kernels");
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  }
  Context* before = session.bound();
  const auto limit = static_cast<CUlimit>(args.limit);
  size_t now = 0;
  CUresult result = session.bind(context);
  if (result == CUDA_SUCCESS) result = session.driver().cuCtxGetLimit(&now, limit);
  if (result == CUDA_SUCCESS && args.value > now)
    result = session.driver().cuCtxSetLimit(limit, args.value);
  if (before != nullptr) (void)session.bind(before);
  return session.complete(record, result, nullptr, 0);
}

}  // namespace

bool handle_ContextSetLimit(Session& session, const wire::ContextSetLimitArgs& args,
                            const Record& record) {
  Context* context = session.find_context(args.context);
  if (context == nullptr) return session.malformed(record, "unknown context");
  if (session.is_packed()) return raise_limit(session, context, args, record);
  std::shared_ptr<Charge> heap;
  if (args.limit == CU_LIMIT_MALLOC_HEAP_SIZE && !charge_heap(session, context, args.value, &heap))
    return session.complete(record, CUDA_ERROR_OUT_OF_MEMORY, nullptr, 0);
  Context* before = session.bound();
  CUresult result = session.bind(context);
  if (result == CUDA_SUCCESS) {
    result = session.driver().cuCtxSetLimit(static_cast<CUlimit>(args.limit), args.value);
  }
  if (args.limit == CU_LIMIT_MALLOC_HEAP_SIZE && result == CUDA_SUCCESS)
    context->heap = std::move(heap);
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
