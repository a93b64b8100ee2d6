// Events that sessions of one user share. A record and a wait answer the guest, so that what it
// tells another process afterwards is true.
// SPDX-License-Identifier: Apache-2.0
#include "server/peer_event.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {

void announce(Session& session, const std::shared_ptr<Event>& event, Stream* stream) {
  std::shared_ptr<Strand> strand = stream == nullptr ? nullptr : stream->announcements;
  if (strand == nullptr) strand = std::make_shared<Strand>(&session.announcers());
  if (stream != nullptr) stream->announcements = strand;
  const uint32_t number = event->peer->begin();
  strand->post([&session, event, number, recorded = event->recorded] {
    session.lanes().wait(recorded);
    if (const Rundown::Use use(&event->context->use); use) {
      (void)session.driver().cuCtxSetCurrent(event->context->handle);
      (void)session.noted(session.driver().cuEventSynchronize(event->handle), event->context);
    }
    event->peer->page()->finish(number);
  });
}

namespace {

// The driver may wait for the device when it loses a page, and needs a context.
PeerEvent::Disposer disposer(Session& session) {
  return [queue = session.page_queue(), driver = &session.driver(),
          home = session.home()](std::shared_ptr<PeerEvent> gone) {
    queue->post([driver, home, gone = std::move(gone)]() mutable {
      (void)driver->cuCtxSetCurrent(home);
      gone.reset();
    });
  };
}

CUresult reach(Session& session, const std::shared_ptr<PeerEvent>& peer) {
  return session.make_at_home([&peer] { return peer->register_page(); });
}

CUresult make_peer(Session& session, Event* event) {
  Result<std::shared_ptr<PeerEvent>> made = PeerEvent::create(&session.driver(), disposer(session));
  if (!made.ok()) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = reach(session, *made);
  if (result == CUDA_SUCCESS) event->peer = std::move(made).value();
  return result;
}

}  // namespace

bool handle_EventShare(Session& session, const wire::EventShareArgs& args, const Record& record) {
  EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr) return session.malformed(record, "unknown event");
  if (!session.config().shares_memory)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  if (entry->event->peer == nullptr) {
    if (const CUresult result = make_peer(session, entry->event.get()); result != CUDA_SUCCESS)
      return session.complete(record, result, nullptr, 0);
    if (entry->event->records != 0) announce(session, entry->event, nullptr);
  }
  if (entry->name == ShareName()) {
    auto share = std::make_shared<Share>(&session.driver());
    share->info.kind = ShareKind::kEvent;
    share->event = entry->event->peer;
    entry->name = session.shares().add(session.config().number, std::move(share));
  }
  wire::EventShareReply reply;
  reply.session = entry->name.session;
  reply.secret_low = entry->name.secret_low;
  reply.secret_high = entry->name.secret_high;
  const bool named = entry->name != ShareName();
  return session.complete(record, named ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, &reply,
                          sizeof(reply));
}

bool handle_EventOpen(Session& session, const wire::EventOpenArgs& args, const Record& record) {
  const std::shared_ptr<Fetched> fetched = session.fetched().find(args.number);
  if (fetched == nullptr || fetched->info.kind != ShareKind::kEvent || !fetched->page.valid())
    return session.malformed(record, "nothing fetched that is an event");
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  session.fetched().drop(args.number);
  Result<std::shared_ptr<PeerEvent>> opened =
      PeerEvent::open(&session.driver(), disposer(session), std::move(fetched->page),
                      std::move(fetched->link), fetched->info.participant);
  if (!opened.ok()) return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
  CUevent handle = nullptr;
  CUresult result = reach(session, *opened);
  if (result == CUDA_SUCCESS)
    result = session.driver().cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) return session.complete(record, result, nullptr, 0);
  auto entry = std::make_unique<EventEntry>();
  entry->event =
      std::make_shared<Event>(&session.driver(), handle, session.bound(), CU_EVENT_DISABLE_TIMING);
  entry->event->peer = std::move(opened).value();
  if (session.events().insert(args.event, std::move(entry)) == nullptr)
    return session.malformed(record, "event id");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_PeerEventRecord(Session& session, const wire::PeerEventRecordArgs& args,
                            const Record& record) {
  wire::EventRecordArgs plain;
  plain.event = args.event;
  plain.stream = args.stream;
  plain.flags = args.flags;
  const EventEntry* entry = session.events().find(args.event);
  if (entry == nullptr || entry->event->peer == nullptr)
    return session.malformed(record, "no shared event");
  if (!handle_EventRecord(session, plain, record)) return false;
  announce(session, entry->event, session.find_stream(args.stream));
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

CUresult wait_for_peer(Session& session, Stream* stream, const std::shared_ptr<PeerEvent>& peer,
                       uint16_t op) {
  const uint32_t number = peer->page()->newest();
  if (peer->page()->passed(number)) return CUDA_SUCCESS;
  if (peer->word() == 0) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult result = session.issue(
      stream, op, [peer, number](const DriverTable& driver, CUstream handle, const std::byte*) {
        return driver.cuStreamWaitValue32_v2(handle, peer->word(), number,
                                             CU_STREAM_WAIT_VALUE_GEQ);
      });
  // The page stays until the device has looked at it for the last time, whatever the guest
  // destroys.
  MarkRef behind;
  if (result == CUDA_SUCCESS && session.mark(stream, &behind) == CUDA_SUCCESS)
    session.let_go({std::move(behind)}, peer);
  return result;
}

bool handle_PeerEventWait(Session& session, const wire::PeerEventWaitArgs& args,
                          const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  const EventEntry* entry = session.events().find(args.event);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  if (entry == nullptr || entry->event->peer == nullptr)
    return session.malformed(record, "no shared event");
  return session.complete(record, wait_for_peer(session, stream, entry->event->peer, record.op()),
                          nullptr, 0);
}

bool query_peer(Session& session, const Event& event, const Record& record) {
  const bool done = event.peer->page()->passed();
  return session.complete(record, done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY, nullptr, 0);
}

bool synchronize_peer(Session& session, const std::shared_ptr<Event>& event, const Record& record) {
  const uint32_t number = event->peer->page()->newest();
  if (event->peer->page()->passed(number))
    return session.complete(record, CUDA_SUCCESS, nullptr, 0);
  session.pool().post([&session, event, number, reply = record.reply()] {
    (void)event->peer->page()->wait(number, -1);
    session.channel().replies().complete(reply, CUDA_SUCCESS);
  });
  return true;
}

}  // namespace vgpu::server
