// vgpud brings workers together whose guests share something: it checks that both are of one user
// and hands each an end of a connection. It keeps nothing, so a restart loses nothing.
// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include "server/daemon.h"
#include "server/log.h"

namespace vgpu::server {

void Daemon::introduce(const Worker& from, const PeerMessage& ask) {
  PeerMessage answer = ask;
  answer.kind = PeerMessageKind::kAnswer;
  int ends[2] = {-1, -1};
  for (const auto& [pid, to] : workers_) {
    if (to->session != ask.session || to->session == 0 || to.get() == &from ||
        to->guest_uid != from.guest_uid || to->tenant != from.tenant || !to->control.valid() ||
        to->mode == SharingMode::kPacked) {
      continue;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) break;
    PeerMessage call = ask;
    call.kind = PeerMessageKind::kCall;
    // Never waits: a worker that does not listen is not reached.
    if (!protocol::send_frame(to->control.get(), bytes_of(call), std::span<const int>(&ends[0], 1),
                              0)
             .ok()) {
      break;
    }
    const UniqueFd called(ends[0]), kept(ends[1]);
    (void)protocol::send_frame(from.control.get(), bytes_of(answer),
                               std::span<const int>(&ends[1], 1), 0);
    return;
  }
  const UniqueFd first(ends[0]), second(ends[1]);
  log(Level::kDebug, "guest %d: asked for what no other session of its user has", from.guest_pid);
  (void)protocol::send_frame(from.control.get(), bytes_of(answer), {}, 0);
}

// A serving worker says nothing else: it asks for a peer, or has obeyed.
void Daemon::peer_asked(WorkerId id) {
  Worker* worker = workers_.at(id).get();
  Result<protocol::ControlFrame> frame = protocol::receive_frame(worker->control.get(), 0);
  if (!frame.ok() && frame.status().code() == StatusCode::kTimedOut) return;
  if (!frame.ok() && worker->mode == SharingMode::kPacked && worker->session != 0)
    return session_over(id);
  PeerMessage ask;
  WorkerObeyed message;
  const bool known = frame.ok() && worker->session != 0 && read_front(frame->bytes, &ask);
  if (known && ask.kind == PeerMessageKind::kObeyed && read_front(frame->bytes, &message)) {
    obeyed(worker, message);
    return;
  }
  if (known && ask.kind == PeerMessageKind::kLeave) {
    worker->left = true;
    worker->left_code = static_cast<int>(ask.request & 0xff);
    end_worker(worker);
    return;
  }
  if (frame.ok() && worker->session == 0 && read_front(frame->bytes, &ask) &&
      ask.kind == PeerMessageKind::kBroken) {
    if (!worker->broken)
      log(Level::kWarn, "worker %d: a device fault; it gets no new guests", worker->pid);
    worker->broken = true;
    return;
  }
  if (!known || ask.kind != PeerMessageKind::kAsk) {
    loop_.remove(worker->control.get());  // its end is told by the process descriptor
    return;
  }
  introduce(*worker, ask);
}

}  // namespace vgpu::server
