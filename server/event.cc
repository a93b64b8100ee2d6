// Events: life, recording, waiting, elapsed time.
// SPDX-License-Identifier: Apache-2.0
#include "op.h"
#include "server/peer_event.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_EventCreate(Session& session, const wire::EventCreateArgs& args, const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  CUevent handle = nullptr;
  // What is shared with other processes is shared by us (peer_event.h).
  const unsigned flags = args.flags & ~unsigned{CU_EVENT_INTERPROCESS};
  const CUresult result = session.driver().cuEventCreate(&handle, flags);
  if (result == CUDA_SUCCESS) {
    auto entry = std::make_unique<EventEntry>();
    entry->event = std::make_shared<Event>(&session.driver(), handle, session.bound(), flags);
    if (session.events().insert(args.event, std::move(entry)) == nullptr) {
      return session.malformed(record, "event id");
    }
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_EventDestroy(Session& session, const wire::EventDestroyArgs& args,
                         const Record& record) {
  const std::unique_ptr<EventEntry> entry = session.events().take(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
  session.shares().remove(entry->name);
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

namespace {

// A fresh event for the entry when somebody still needs the record that the old one stands for.
CUresult renew(Session& session, EventEntry* entry) {
  const Event& old = *entry->event;
  if (old.in_graph || (entry->event.use_count() == 1 && old.recorded.passed())) return CUDA_SUCCESS;
  CUevent handle = nullptr;
  const CUresult result = session.driver().cuEventCreate(&handle, old.flags);
  if (result == CUDA_SUCCESS) {
    auto fresh = std::make_shared<Event>(old.driver, handle, old.context, old.flags);
    fresh->peer = old.peer;
    entry->event = std::move(fresh);
  }
  return result;
}

}  // namespace

bool handle_EventRecord(Session& session, const wire::EventRecordArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  EventEntry* entry = session.events().find(args.event);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (entry == nullptr || entry->event->context != stream->context) {
    return session.malformed(record, "unknown event");
  }
  if (const CUresult result = renew(session, entry); result != CUDA_SUCCESS) {
    return session.forgotten(record, result);
  }
  Event* event = entry->event.get();
  LanePoint place;
  const bool goes_on = session.submit(
      stream, record,
      [event = entry->event, flags = args.flags](const DriverTable& driver, CUstream handle,
                                                 const std::byte*) {
        return flags == 0 ? driver.cuEventRecord(event->handle, handle)
                          : driver.cuEventRecordWithFlags(event->handle, handle, flags);
      },
      {.place = &place, .instant = true});
  event->recorded = place;
  stream->last_event = entry->event;
  stream->last_record = ++event->records;
  return goes_on;
}

namespace {

// A stream of ours in the bound context.
CUresult side_stream(Session& session, std::unique_ptr<Stream>* stream) {
  if (*stream != nullptr) return CUDA_SUCCESS;
  auto made = std::make_unique<Stream>(session.bound(), session.bound()->flow);
  const CUresult result =
      session.driver().cuStreamCreateWithPriority(&made->handle, CU_STREAM_NON_BLOCKING, 0);
  if (result == CUDA_SUCCESS) *stream = std::move(made);
  return result;
}

// `stream` waits for an event; `owner` keeps it until the driver has been told.
template <typename Owner>
CUresult wait_in(Session& session, Stream* stream, CUevent event, Owner owner, LanePoint recorded) {
  return session.issue(stream, static_cast<uint16_t>(Op::kStreamWaitEvent),
                       [event, owner = std::move(owner)](const DriverTable& driver, CUstream handle,
                                                         const std::byte*) {
                         return driver.cuStreamWaitEvent(handle, event, 0);
                       },
                       {.after = recorded, .instant = session.is_past(event, recorded)});
}

// The event's record goes behind all work of its context: a stream of ours waits for marks behind
// it.
CUresult record_behind_all(Session& session, EventEntry* entry) {
  Context* context = session.bound();
  CUresult result = side_stream(session, &context->gathering);
  Marks marks;
  if (result == CUDA_SUCCESS) result = session.mark_context(context, &marks);
  if (result == CUDA_SUCCESS) result = renew(session, entry);
  for (const MarkRef& mark : marks) {
    if (result == CUDA_SUCCESS)
      result = wait_in(session, context->gathering.get(), mark->event, mark, mark->recorded);
  }
  if (result != CUDA_SUCCESS) return result;
  Event* event = entry->event.get();
  LanePoint place;
  result = session.issue(
      context->gathering.get(), static_cast<uint16_t>(Op::kEventRecord),
      [event = entry->event](const DriverTable& driver, CUstream handle, const std::byte*) {
        return driver.cuEventRecord(event->handle, handle);
      },
      {.place = &place, .instant = true});
  event->recorded = place;
  ++event->records;
  return result;
}

}  // namespace

bool handle_ContextRecordEvent(Session& session, const wire::ContextRecordEventArgs& args,
                               const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  if (entry == nullptr || entry->event->context != session.bound())
    return session.malformed(record, "unknown event");
  const CUresult result = record_behind_all(session, entry);
  if (result == CUDA_SUCCESS && entry->event->peer != nullptr)
    announce(session, entry->event, session.bound()->gathering.get());
  return session.complete(record, result, nullptr, 0);
}

bool handle_ContextWaitEvent(Session& session, const wire::ContextWaitEventArgs& args,
                             const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  Context* context = session.bound();
  if (context == nullptr) return session.malformed(record, "no context is bound");
  if (entry == nullptr) return session.malformed(record, "unknown event");
  CUresult result = side_stream(session, &context->gate);
  std::vector<Stream*> streams = {&context->legacy, context->gate.get()};
  session.streams().for_each([&](uint64_t, Stream& each) {
    if (each.context == context) streams.push_back(&each);
  });
  for (Stream* stream : streams) {
    if (result != CUDA_SUCCESS) break;
    const Event& event = *entry->event;
    result = event.peer != nullptr
                 ? wait_for_peer(session, stream, event.peer, record.op())
                 : wait_in(session, stream, event.handle, entry->event, event.recorded);
  }
  return session.complete(record, result, nullptr, 0);
}

CUresult Session::catch_up(Stream* fresh) {
  Stream* gate = fresh->context->gate.get();
  if (gate == nullptr) return CUDA_SUCCESS;
  if (!waits_in_lane(*gate) && driver().cuStreamQuery(gate->handle) != CUDA_ERROR_NOT_READY)
    return CUDA_SUCCESS;
  MarkRef behind;
  const CUresult result = mark(gate, &behind);
  return result == CUDA_SUCCESS ? wait_in(*this, fresh, behind->event, behind, behind->recorded)
                                : result;
}

bool handle_EventQuery(Session& session, const wire::EventQueryArgs& args, const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
  if (entry->event->peer != nullptr) return query_peer(session, *entry->event, record);
  const CUresult state = entry->event->recorded.passed()
                             ? session.driver().cuEventQuery(entry->event->handle)
                             : CUDA_ERROR_NOT_READY;
  return session.complete(record, state, nullptr, 0);
}

bool handle_EventSynchronize(Session& session, const wire::EventSynchronizeArgs& args,
                             const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (entry->event->peer != nullptr) return synchronize_peer(session, entry->event, record);
  const LanePoint recorded = entry->event->recorded;
  if (recorded.passed() && !session.prints()) {
    const CUresult state = session.driver().cuEventQuery(entry->event->handle);
    if (state != CUDA_ERROR_NOT_READY) return session.complete(record, state, nullptr, 0);
  }
  session.pool().post([&session, event = entry->event, recorded, reply = record.reply()] {
    session.lanes().wait(recorded);
    CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const Rundown::Use use(&event->context->use); use) {
      (void)session.driver().cuCtxSetCurrent(event->context->handle);
      result = session.noted(session.driver().cuEventSynchronize(event->handle), event->context);
    }
    if (session.prints()) session.publish_output();
    session.channel().replies().complete(reply, result);
  });
  return true;
}

bool handle_EventElapsed(Session& session, const wire::EventElapsedArgs& args,
                         const Record& record) {
  EventEntry* start = session.events().find(args.start);
  EventEntry* end = session.events().find(args.end);
  if (start == nullptr || end == nullptr) return session.malformed(record, "unknown event");
  wire::EventElapsedReply reply;
  const auto elapsed = session.driver().cuEventElapsedTime_v2;
  if (elapsed == nullptr) return session.refuse(record, "cuEventElapsedTime_v2");
  CUresult result = CUDA_ERROR_NOT_READY;
  if (start->event->recorded.passed() && end->event->recorded.passed()) {
    result = elapsed(&reply.milliseconds, start->event->handle, end->event->handle);
  }
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace vgpu::server
