// The worker's watching thread.
// SPDX-License-Identifier: Apache-2.0
#include "server/liveness.h"

#include <poll.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "base/clock.h"
#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

// Says who we are to a vgpud that knocks.
UniqueFd answer(Liveness* liveness) {
  Result<UniqueFd> socket = protocol::accept_unix(liveness->door.get());
  if (!socket.ok()) return UniqueFd();
  Result<protocol::PeerCredentials> peer = protocol::peer_credentials(socket->get());
  if (!peer.ok() || (peer->uid != liveness->server_user && peer->uid != 0)) return UniqueFd();
  liveness->adopt.share = liveness->turns->share(liveness->adopt.share);
  liveness->adopt.uptime_ms = monotonic_ns() / 1'000'000 - liveness->started_ms;
  const int page = liveness->page.get();
  const Status sent = protocol::send_frame(socket->get(), bytes_of(liveness->adopt),
                                           std::span<const int>(&page, 1));
  if (!sent.ok()) return UniqueFd();
  log(Level::kInfo, "reported to a new vgpud");
  return std::move(socket).value();
}

void obey(Liveness* liveness, const WorkerOrder& order) {
  liveness->adopt.grants = order.grants;
  liveness->adopt.share = order.share;
  liveness->adopt.record.set = order.set;
  const WorkerObeyed obeyed = liveness->steering->obey(order);
  log(Level::kInfo, "from now on the guest may have %llu MiB of its first device, weight %u",
      static_cast<unsigned long long>(order.grants.bytes[0] >> 20), order.share.weight);
  (void)protocol::send_frame(liveness->control.get(), bytes_of(obeyed));
}

// False: vgpud is gone, or it is none that we know.
bool listen_to(Liveness* liveness) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(liveness->control.get(), 0);
  if (!frame.ok()) return frame.status().code() == StatusCode::kTimedOut;
  if (WorkerOrder order;
      read_front(frame->bytes, &order) && order.kind == PeerMessageKind::kOrder) {
    obey(liveness, order);
    return true;
  }
  PeerMessage message;
  if (read_front(frame->bytes, &message) && message.kind == PeerMessageKind::kBoard) {
    if (frame->descriptors.size() != 2) return false;
    const Status taken = liveness->turns->connect(std::move(frame->descriptors[0]),
                                                  std::move(frame->descriptors[1]));
    if (!taken.ok()) log(Level::kWarn, "board: %s", taken.to_string().c_str());
    return taken.ok();
  }
  return liveness->peers->heard(std::move(frame).value());
}

void run(Liveness liveness) {
  while (true) {
    const bool alone = !liveness.control.valid();
    pollfd watched[3] = {{liveness.connection, POLLRDHUP, 0},
                         {liveness.guest.get(), POLLIN, 0},
                         {alone ? liveness.door.get() : liveness.control.get(), POLLIN, 0}};
    if (poll(watched, 3, -1) < 0) continue;
    if ((watched[0].revents | watched[1].revents) != 0) liveness.leaving->leave(0);
    if (watched[2].revents == 0) continue;
    if (alone) {
      liveness.control = answer(&liveness);
      liveness.leaving->connected(liveness.control.get());
      liveness.peers->connected(liveness.control.get());
    } else if (!listen_to(&liveness)) {
      liveness.peers->disconnected();
      liveness.turns->disconnect();
      liveness.leaving->disconnected();
      log(Level::kInfo, "vgpud is gone; the session goes on without it");
      liveness.control.reset();
    }
  }
}

}  // namespace

void watch(Liveness liveness) {
  liveness.peers->connected(liveness.control.get());  // before the guest's first command
  liveness.leaving->connected(liveness.control.get());
  std::thread([moved = std::make_shared<Liveness>(std::move(liveness))] {
    run(std::move(*moved));
  }).detach();
}

}  // namespace vgpu::server
