// The worker's watching thread.
// SPDX-License-Identifier: Apache-2.0
#include "server/liveness.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "protocol/transport/connect.h"
#include "server/log.h"

namespace vgpu::server {
namespace {

constexpr int kReconnectMsMin = 100;
constexpr int kReconnectMsMax = 2000;

// Says who we are to whoever listens at vgpud's address now.
UniqueFd reconnect(Liveness* liveness) {
  Result<UniqueFd> socket = protocol::connect_unix(liveness->listen_path);
  if (!socket.ok()) return UniqueFd();
  liveness->adopt.uptime_ms = monotonic_ns() / 1'000'000 - liveness->started_ms;
  const int page = liveness->page.get();
  const Status sent = protocol::send_frame(socket->get(), bytes_of(liveness->adopt),
                                           std::span<const int>(&page, 1));
  if (!sent.ok()) return UniqueFd();
  log(Level::kInfo, "reported to a new vgpud");
  return std::move(socket).value();
}

// False: vgpud is gone, or it is none that we know.
bool listen_to(Liveness* liveness) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(liveness->control.get(), 0);
  if (!frame.ok()) return frame.status().code() == StatusCode::kTimedOut;
  return liveness->peers->heard(std::move(frame).value());
}

void run(Liveness liveness) {
  int retry_ms = kReconnectMsMin;
  while (true) {
    pollfd watched[3] = {{liveness.connection, POLLRDHUP, 0},
                         {liveness.guest.get(), POLLIN, 0},
                         {liveness.control.get(), POLLIN, 0}};
    const bool alone = !liveness.control.valid();
    if (poll(watched, 3, alone ? retry_ms : -1) < 0) continue;
    if ((watched[0].revents | watched[1].revents) != 0) _exit(0);
    if (!alone && watched[2].revents != 0) {
      if (listen_to(&liveness)) continue;
      liveness.peers->disconnected();
      log(Level::kInfo, "vgpud is gone; the session goes on without it");
      liveness.control.reset();
      retry_ms = kReconnectMsMin;
    } else if (alone) {
      liveness.control = reconnect(&liveness);
      liveness.peers->connected(liveness.control.get());
      retry_ms = std::min(retry_ms * 2, kReconnectMsMax);
    }
  }
}

}  // namespace

void watch(Liveness liveness) {
  liveness.peers->connected(liveness.control.get());  // before the guest's first command
  std::thread([moved = std::make_shared<Liveness>(std::move(liveness))] {
    run(std::move(*moved));
  }).detach();
}

}  // namespace vgpu::server
