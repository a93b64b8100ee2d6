// Events: life, recording, waiting, elapsed time.
// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

bool handle_EventCreate(Session& session, const wire::EventCreateArgs& args, const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  CUevent handle = nullptr;
  const CUresult result = session.driver().cuEventCreate(&handle, args.flags);
  if (result == CUDA_SUCCESS) {
    auto entry = std::make_unique<EventEntry>();
    entry->event = std::make_shared<Event>(&session.driver(), handle, session.bound());
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

bool handle_EventRecord(Session& session, const wire::EventRecordArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  CUevent event = nullptr;
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (!session.event(args.event, &event)) return session.malformed(record, "unknown event");
  session.touch(stream);
  const DriverTable& driver = session.driver();
  const CUresult result = args.flags == 0
                              ? driver.cuEventRecord(event, stream->handle)
                              : driver.cuEventRecordWithFlags(event, stream->handle, args.flags);
  return session.complete(record, result, nullptr, 0);
}

bool handle_EventQuery(Session& session, const wire::EventQueryArgs& args, const Record& record) {
  CUevent event = nullptr;
  if (!session.event(args.event, &event)) return session.malformed(record, "unknown event");
  return session.complete(record, session.driver().cuEventQuery(event), nullptr, 0);
}

bool handle_EventSynchronize(Session& session, const wire::EventSynchronizeArgs& args,
                             const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
  const CUresult state = session.driver().cuEventQuery(entry->event->handle);
  if (state != CUDA_ERROR_NOT_READY) return session.complete(record, state, nullptr, 0);
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  session.pool().post([&session, event = entry->event, reply = record.reply()] {
    (void)session.driver().cuCtxSetCurrent(event->context->handle);
    const CUresult result = session.driver().cuEventSynchronize(event->handle);
    session.channel().replies().complete(reply, session.noted(result, event->context));
  });
  return true;
}

bool handle_EventElapsed(Session& session, const wire::EventElapsedArgs& args,
                         const Record& record) {
  CUevent start = nullptr;
  CUevent end = nullptr;
  if (!session.event(args.start, &start) || !session.event(args.end, &end)) {
    return session.malformed(record, "unknown event");
  }
  wire::EventElapsedReply reply;
  const auto elapsed = session.driver().cuEventElapsedTime_v2;
  if (elapsed == nullptr) return session.refuse(record, "cuEventElapsedTime_v2");
  const CUresult result = elapsed(&reply.milliseconds, start, end);
  return session.complete(record, result, &reply, sizeof(reply));
}

}  // namespace vgpu::server
