// vgpu-gate without keys, for tests: whoever reaches its unix socket gets a session over the
// fabric. SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "net/fabric/ends.h"
#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"
#include "tests/net/plain_order.h"

namespace vgpu::net {
namespace {

constexpr int kTimeoutMs = 10'000;

struct Options {
  std::string listen, server, host = "127.0.0.1";
  Provider provider;
};

int fail(const char* what, const Status& status) {
  std::fprintf(stderr, "plain_gate %d: %s: %s\n", getpid(), what, status.to_string().c_str());
  return EXIT_FAILURE;
}

int refuse(int control, const protocol::Refusal& refusal) {
  (void)protocol::send_message(control, refusal);
  return EXIT_FAILURE;
}

// One session, in a process of its own.
int serve(const Options& options, int control) {
  Result<protocol::ControlFrame> frame = protocol::receive_frame(control, kTimeoutMs);
  if (!frame.ok()) return fail("order", frame.status());
  Result<PlainOrder> order = decode_order(frame->bytes);
  if (!order.ok()) return fail("order", order.status());
  order->hello.flags |= protocol::kHelloRemote;
  Result<std::unique_ptr<FabricListener>> listener =
      FabricListener::open(options.provider, options.host);
  if (!listener.ok())
    return refuse(control, {protocol::kCudaSystemNotReady, listener.status().text()});
  Result<UniqueFd> connection = protocol::connect_unix(options.server);
  if (!connection.ok()) return refuse(control, protocol::refusal_for(connection.status()));
  if (Status sent = protocol::send_message(connection->get(), order->hello); !sent.ok())
    return refuse(control, protocol::refusal_for(sent));
  auto received = protocol::receive_message(connection->get(), kTimeoutMs);
  if (!received.ok()) return refuse(control, protocol::refusal_for(received.status()));
  if (const auto* no = std::get_if<protocol::Refusal>(&received->message))
    return refuse(control, *no);
  const auto* reply = std::get_if<protocol::HelloReply>(&received->message);
  if (reply == nullptr || received->descriptors.size() != 1)
    return fail("answer", Status(StatusCode::kMalformed, "no reply"));
  const PlainReady ready{(*listener)->address(), *reply};
  if (Status sent = protocol::send_frame(control, encode_ready(ready)); !sent.ok())
    return fail("answer", sent);
  const WorkerEnd worker{received->descriptors[0].get(), connection->get(), reply->sizes};
  // The rendezvous socket ends when the guest has connected: it is no reason to end the session.
  const Status ended = serve_session(std::move(*listener), order->secret, worker, -1);
  return ended.ok() ? EXIT_SUCCESS : fail("session", ended);
}

int run(const Options& options) {
  Result<UniqueFd> listener = protocol::listen_unix(options.listen, 0600);
  if (!listener.ok()) return fail("listen", listener.status());
  (void)::signal(SIGCHLD, SIG_IGN);
  for (;;) {
    pollfd wait{listener->get(), POLLIN, 0};
    if (::poll(&wait, 1, -1) <= 0) continue;
    Result<UniqueFd> guest = protocol::accept_unix(listener->get());
    if (!guest.ok()) continue;
    if (::fork() != 0) continue;
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::signal(SIGCHLD, SIG_DFL);
    listener->reset();
    // No exit handlers of libraries that have threads.
    _exit(serve(options, guest->get()));
  }
}

}  // namespace
}  // namespace vgpu::net

int main(int argc, char** argv) {
  // No device memory is registered here; libfabric would look for that in all of the kernel's
  // symbols.
  (void)::setenv("FI_HMEM", "system", 0);
  vgpu::net::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--listen") options.listen = argv[i + 1];
    if (name == "--server") options.server = argv[i + 1];
    if (name == "--host") options.host = argv[i + 1];
    if (name == "--provider") options.provider.name = argv[i + 1];
  }
  if (options.listen.empty() || options.server.empty()) {
    std::fprintf(stderr, "usage: plain_gate --listen PATH --server PATH [--host ADDRESS]\n");
    return 2;
  }
  (void)::signal(SIGPIPE, SIG_IGN);
  return vgpu::net::run(options);
}
