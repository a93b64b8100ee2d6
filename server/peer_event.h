// Events that several sessions of one user record and wait for: a page that all their workers have.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_PEER_EVENT_H_
#define VGPU_SERVER_PEER_EVENT_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "api/ipc/event_page.h"
#include "base/mapping.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "driver_table.h"
#include "server/link_watch.h"

namespace vgpu::server {

// Thread-safe.
class PeerEvent {
 public:
  // Called with an event whose last user is gone: it goes where the driver may wait for the device,
  // with a context current.
  using Disposer = std::function<void(std::shared_ptr<PeerEvent>)>;
  // Our own, the first participant.
  static Result<std::shared_ptr<PeerEvent>> create(const DriverTable* driver, Disposer disposer);
  // Another session's, whose worker is at the other end of `link` and has made us `participant`.
  // When that worker is gone, what it recorded last counts as past: nobody waits for the dead.
  static Result<std::shared_ptr<PeerEvent>> open(const DriverTable* driver, Disposer disposer,
                                                 UniqueFd file, UniqueFd link,
                                                 uint32_t participant);
  ~PeerEvent();
  // Before streams can wait: the driver learns of the page in the current context, for all of them.
  CUresult register_page();

  int file() const { return file_.get(); }
  // A number for another worker that joins.
  uint32_t next_participant() { return page()->joined.fetch_add(1, std::memory_order_relaxed) + 1; }
  uint32_t begin() { return page()->begin(participant_); }
  EventPage* page() const { return reinterpret_cast<EventPage*>(mapping_.data()); }
  // Where the device sees `completed`; 0: it does not, and streams cannot wait.
  CUdeviceptr word() const { return word_; }

 private:
  explicit PeerEvent(const DriverTable* driver) : driver_(driver) {}
  static std::shared_ptr<PeerEvent> make(const DriverTable* driver, Disposer disposer);
  Status map(UniqueFd file);

  const DriverTable* driver_;
  UniqueFd file_;
  Mapping mapping_;
  bool registered_ = false;
  CUdeviceptr word_ = 0;
  uint32_t participant_ = 0;
  UniqueFd link_;
};

class Session;
class Record;
struct Event;
struct Stream;
// Tells all participants when what the event stands for now is past: its record, which is the
// newest work of `stream`, or one elsewhere (null). Records of one stream are past one after the
// other, so one thread waits for them.
void announce(Session& session, const std::shared_ptr<Event>& event, Stream* stream);
// The stream waits for the record that is the newest now, whoever made it.
CUresult wait_for_peer(Session& session, Stream* stream, const std::shared_ptr<PeerEvent>& peer,
                       uint16_t op);
// Answers of a shared event (ipc_event.cc); whether the session goes on.
bool query_peer(Session& session, const Event& event, const Record& record);
bool synchronize_peer(Session& session, const std::shared_ptr<Event>& event, const Record& record);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_PEER_EVENT_H_
