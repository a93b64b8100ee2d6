// Passing bytes on, and counting turns.
// SPDX-License-Identifier: Apache-2.0
#include "tools/vgpu/relay.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace vgpu::tools {
namespace {

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool send_all(int socket, const char* bytes, ssize_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, static_cast<size_t>(count), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes += sent;
    count -= sent;
  }
  return true;
}

}  // namespace

Relay::Relay(uint16_t port)
    : port_(port),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      end_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address = loopback(0);
  socklen_t bytes = sizeof(address);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  if (!end_.valid() || ::bind(listener_.get(), name, bytes) != 0 ||
      ::listen(listener_.get(), 1) != 0 || ::getsockname(listener_.get(), name, &bytes) != 0) {
    throw std::runtime_error("no socket for a relay");
  }
  own_port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Relay::~Relay() {
  const uint64_t one = 1;
  (void)!::write(end_.get(), &one, sizeof(one));
  thread_.join();
}

void Relay::run() {
  for (;;) {
    pollfd entries[] = {{listener_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
    if (::poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) return;
    const UniqueFd guest(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in there = loopback(port_);
    if (!guest.valid() ||
        ::connect(server.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0)
      continue;
    pass(guest.get(), server.get());
  }
}

void Relay::pass(int guest, int server) {
  char bytes[16384];
  round_trips_ = 1;  // the connection itself
  bool asked = false;
  for (;;) {
    pollfd entries[] = {{guest, POLLIN, 0}, {server, POLLIN, 0}, {end_.get(), POLLIN, 0}};
    if (::poll(entries, 3, -1) < 0) continue;
    if (entries[2].revents != 0) return;
    for (const int i : {0, 1}) {
      if (entries[i].revents == 0) continue;
      const ssize_t count = ::recv(entries[i].fd, bytes, sizeof(bytes), 0);
      if (count <= 0 || !send_all(i == 0 ? server : guest, bytes, count)) return;
      if (i == 1 && asked) ++round_trips_;
      asked = i == 0;
    }
  }
}

}  // namespace vgpu::tools
