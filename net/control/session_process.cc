// From the gate's order to the end of the session.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/session_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/log.h"
#include "base/user_range.h"
#include "net/control/control_limits.h"
#include "net/fabric/ends.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {
namespace {

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

// Readable when the gate is gone or says something, and when the worker is gone.
Result<UniqueFd> watch_both(int control, int worker) {
  UniqueFd both(::epoll_create1(EPOLL_CLOEXEC));
  if (!both.valid()) return Status::from_errno(errno, "epoll_create1");
  for (const int fd : {control, worker}) {
    epoll_event event{};
    event.events = fd == control ? EPOLLIN | EPOLLRDHUP : uint32_t{EPOLLRDHUP};
    if (::epoll_ctl(both.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return Status::from_errno(errno, "epoll_ctl");
  }
  return both;
}

bool is_gone(int fd) {
  pollfd watched{fd, POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) > 0 &&
         (watched.revents & (POLLHUP | POLLERR | POLLNVAL | POLLRDHUP)) != 0;
}

// What the guest is told when it is over, if it still hears.
std::string why_over(const Worker& worker, const Status& ended) {
  if (is_gone(worker.connection.get())) return "the server has ended the session";
  return ended.ok() ? "the data connection has ended" : ended.text();
}

// Adapters pin what is registered with them: the channel, a few dozen MiB. Other users than root
// have less unless it is given to them first.
void raise_locked_limit() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &limit) == 0 || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_MEMLOCK, &limit);
}

bool fresh(Secret* secret) {
  if (::getrandom(secret->data(), secret->size(), 0) == static_cast<ssize_t>(secret->size()))
    return true;
  VGPU_LOG_ERROR("no random numbers");
  return false;
}

// The gate passes on what the guest asks for, and what it is offered.
class GateKeeper final : public Keeper {
 public:
  GateKeeper(const SessionOptions& options, Provider provider,
             const protocol::NetAttached& attached)
      : options_(options), provider_(std::move(provider)), attached_(attached) {}

  int grace_ms() const override { return static_cast<int>(attached_.grace_ms); }
  Result<uint32_t> wanted() override {
    Result<protocol::ReceivedMessage> received = protocol::receive_message(options_.control, 0);
    if (!received.ok()) return received.status();
    const auto* resume = std::get_if<protocol::NetResume>(&received->message);
    if (resume == nullptr)
      return Status(StatusCode::kMalformed, "the gate says what is not for it");
    return resume->epoch;
  }
  Status offer(uint32_t epoch, const std::string& address, const Secret& secret) override {
    const std::vector<uint8_t> place(address.begin(), address.end());
    return say(options_.control,
               protocol::NetResumed{attached_.reply.session, epoch, place, secret});
  }
  Result<std::unique_ptr<FabricListener>> listen(Secret* secret) override {
    if (!fresh(secret)) return Status(StatusCode::kSystem, "no random numbers");
    return FabricListener::open(provider_, options_.data_host);
  }

 private:
  const SessionOptions options_;
  const Provider provider_;
  const protocol::NetAttached& attached_;
};

int serve(const SessionOptions& options, const protocol::NetAttach& asked) {
  const Provider provider{asked.provider.empty() ? kProviderDefault : asked.provider};
  Result<std::unique_ptr<FabricListener>> listener =
      FabricListener::open(provider, options.data_host);
  if (!listener.ok()) {
    (void)say(options.control, protocol::Refusal{protocol::kCudaSystemNotReady,
                                                 "no data connection by " + provider.name + ": " +
                                                     listener.status().text()});
    return 0;
  }
  Worker worker;
  if (!attach(options, &worker)) return 0;
  const Result<UniqueFd> over = watch_both(options.control, worker.connection.get());
  if (!over.ok()) return 1;
  protocol::NetAttached attached;
  attached.reply = worker.reply;
  attached.provider = provider.name;
  const std::string& address = (*listener)->address();
  attached.address.assign(address.begin(), address.end());
  attached.beat_ms = kBeatMs;
  attached.grace_ms = asked.grace_ms;  // as the gate grants it
  if (!fresh(&attached.secret)) return 1;
  if (!say(options.control, attached).ok()) return 1;
  GateKeeper keeper(options, provider, attached);
  const Status ended = serve_session(
      std::move(*listener), attached.secret,
      {worker.memory.get(), worker.connection.get(), worker.reply.sizes}, over->get(), &keeper);
  (void)say(options.control, protocol::NetEnded{worker.reply.session, why_over(worker, ended)});
  return 0;
}

}  // namespace

int run_session(const SessionOptions& options) {
  raise_locked_limit();
  if (options.user != 0) {
    if (const Status became = become_user(options.user); !became.ok()) {
      VGPU_LOG_ERROR("cannot run as user %u: %s", options.user, became.text().c_str());
      return 1;
    }
  }
  // Whatever becomes of the gate, no session outlives it. A change of users would undo this.
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Result<protocol::ReceivedMessage> order = protocol::receive_message(options.control, kPendingMs);
  const auto* asked = order.ok() ? std::get_if<protocol::NetAttach>(&order->message) : nullptr;
  return asked != nullptr ? serve(options, *asked) : 1;
}

}  // namespace vgpu::net
