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
  if (liveness->gone && read_front(frame->bytes, &message) &&
      message.kind == PeerMessageKind::kEnd) {
    liveness->gone();
    return true;
  }
  return liveness->peers == nullptr || liveness->peers->heard(std::move(frame).value());
}

void connected(Liveness* liveness) {
  const int control = liveness->control.get();
  if (liveness->peers != nullptr) liveness->peers->connected(control);
  if (liveness->leaving != nullptr) liveness->leaving->connected(control);
}

void disconnected(Liveness* liveness) {
  if (liveness->peers != nullptr) liveness->peers->disconnected();
  if (liveness->leaving != nullptr) liveness->leaving->disconnected();
  liveness->turns->disconnect();
}

void guest_gone(Liveness* liveness) {
  if (liveness->leaving != nullptr) liveness->leaving->leave(0);
  liveness->gone();
  liveness->connection = -1;
  liveness->guest.reset();
}

void run(std::shared_ptr<Liveness> owned) {
  Liveness& liveness = *owned;
  while (true) {
    const bool alone = !liveness.control.valid();
    pollfd watched[4] = {{liveness.connection, POLLRDHUP, 0},
                         {liveness.guest.get(), POLLIN, 0},
                         {alone ? liveness.door.get() : liveness.control.get(), POLLIN, 0},
                         {liveness.over, POLLIN, 0}};
    if (poll(watched, 4, -1) < 0) continue;
    if (watched[3].revents != 0) return;
    if ((watched[0].revents | watched[1].revents) != 0) guest_gone(&liveness);
    if (watched[2].revents == 0) continue;
    if (alone) {
      liveness.control = answer(&liveness);
      connected(&liveness);
    } else if (!listen_to(&liveness)) {
      disconnected(&liveness);
      log(Level::kInfo, "vgpud is gone; the session goes on without it");
      liveness.control.reset();
    }
  }
}

}  // namespace

void watch(Liveness liveness) { watch_one(std::move(liveness)).detach(); }

std::thread watch_one(Liveness liveness) {
  connected(&liveness);  // before the guest's first command
  return std::thread([moved = std::make_shared<Liveness>(std::move(liveness))]() mutable {
    run(std::move(moved));
  });
}

}  // namespace vgpu::server
