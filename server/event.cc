// Events: life, recording, waiting, elapsed time.
// SPDX-License-Identifier: Apache-2.0
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_EventCreate(Session& session, const wire::EventCreateArgs& args, const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  CUevent handle = nullptr;
  const CUresult result = session.driver().cuEventCreate(&handle, args.flags);
  if (result == CUDA_SUCCESS) {
    auto entry = std::make_unique<EventEntry>();
    entry->event = std::make_shared<Event>(&session.driver(), handle, session.bound(), args.flags);
    if (session.events().insert(args.event, std::move(entry)) == nullptr) {
      return session.malformed(record, "event id");
    }
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_EventDestroy(Session& session, const wire::EventDestroyArgs& args,
                         const Record& record) {
  if (session.events().take(args.event) == nullptr) {
    return session.malformed(record, "unknown event");
  }
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
    entry->event = std::make_shared<Event>(old.driver, handle, old.context, old.flags);
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
      {.place = &place});
  event->recorded = place;
  stream->last_event = entry->event;
  stream->last_record = ++event->records;
  return goes_on;
}

bool handle_EventQuery(Session& session, const wire::EventQueryArgs& args, const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
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
