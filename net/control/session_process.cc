// From the gate's order to the end of the session.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/session_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "net/control/control_limits.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

constexpr short kGone = POLLHUP | POLLERR | POLLNVAL | POLLRDHUP;  // NOLINT(google-runtime-int)

// The worker's end of the session: what a local guest would have.
struct Worker {
  UniqueFd connection, memory;
  protocol::HelloReply reply;
};

Status say(int control, const protocol::Message& message) {
  return protocol::send_message(control, message);
}

// False: the gate was told why not, and there is no session.
bool attach(const SessionOptions& options, Worker* worker) {
  const auto refuse = [&](const Status& status) {
    (void)say(options.control, protocol::refusal_for(status));
    return false;
  };
  Result<protocol::ReceivedMessage> received =
      protocol::receive_message(options.worker, kPendingMs);
  if (!received.ok()) {
    return refuse(Status(StatusCode::kUnavailable, "the server gave no session; try again"));
  }
  if (std::get_if<protocol::Refusal>(&received->message) != nullptr) {
    (void)say(options.control, received->message);  // in the server's words
    return false;
  }
  auto* reply = std::get_if<protocol::HelloReply>(&received->message);
  if (reply == nullptr || received->descriptors.size() != 1) {
    return refuse(Status(StatusCode::kUnavailable, "the server's worker gave no channel"));
  }
  worker->connection.reset(options.worker);
  worker->memory = std::move(received->descriptors[0]);
  worker->reply = std::move(*reply);
  return true;
}

bool make_secret(protocol::Secret* secret) {
  return ::getrandom(secret->data(), secret->size(), 0) == static_cast<ssize_t>(secret->size());
}

// Until the gate or the worker is gone.
void stand_between(const SessionOptions& options, const Worker& worker) {
  for (;;) {
    pollfd watched[] = {{options.control, POLLRDHUP, 0}, {worker.connection.get(), POLLRDHUP, 0}};
    if (::poll(watched, 2, -1) < 0) continue;
    if ((watched[0].revents & kGone) != 0) return;
    if ((watched[1].revents & kGone) != 0) {
      (void)say(options.control,
                protocol::NetEnded{worker.reply.session, "the server has ended the session"});
      return;
    }
  }
}

}  // namespace

int run_session(const SessionOptions& options) {
  // Whatever becomes of the gate, no session outlives it.
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Result<protocol::ReceivedMessage> order = protocol::receive_message(options.control, kPendingMs);
  if (!order.ok()) return 1;
  if (std::get_if<protocol::NetAttach>(&order->message) == nullptr) return 1;
  Worker worker;
  if (!attach(options, &worker)) return 0;
  protocol::NetAttached attached;
  attached.reply = worker.reply;
  attached.beat_ms = kBeatMs;
  if (!make_secret(&attached.secret)) {
    VGPU_LOG_ERROR("no random numbers");
    return 1;
  }
  if (!say(options.control, attached).ok()) return 1;
  stand_between(options, worker);
  return 0;
}

}  // namespace vgpu::net
