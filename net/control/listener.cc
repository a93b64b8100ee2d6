// Plain sockets.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/listener.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "net/control/control_limits.h"

namespace vgpu::net {
namespace {

Result<UniqueFd> listen_at(const sockaddr* address, socklen_t bytes, bool both_families) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  const int one = 1, only = both_families ? 0 : 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (address->sa_family == AF_INET6)
    (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  if (::bind(fd.get(), address, bytes) == 0 && ::listen(fd.get(), kBacklog) == 0) return fd;
  const int error = errno;
  const char* reason = ::strerrordesc_np(error);
  return Status(error == EADDRINUSE ? StatusCode::kAlreadyExists : StatusCode::kSystem,
                reason != nullptr ? reason : "bind", error);
}

Result<UniqueFd> listen_everywhere(uint16_t port) {
  sockaddr_in6 both{};
  both.sin6_family = AF_INET6;
  both.sin6_port = htons(port);
  Result<UniqueFd> fd = listen_at(reinterpret_cast<sockaddr*>(&both), sizeof(both), true);
  if (fd.ok() || fd.status().code() == StatusCode::kAlreadyExists) return fd;
  sockaddr_in old{};  // a kernel without IPv6
  old.sin_family = AF_INET;
  old.sin_port = htons(port);
  return listen_at(reinterpret_cast<sockaddr*>(&old), sizeof(old), false);
}

Result<UniqueFd> listen_on_host(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return Status(StatusCode::kNotFound, ::gai_strerror(error));
  Result<UniqueFd> fd = listen_at(found->ai_addr, found->ai_addrlen, false);
  ::freeaddrinfo(found);
  return fd;
}

uint16_t port_of(int fd) {
  sockaddr_storage name{};
  socklen_t bytes = sizeof(name);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) return 0;
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

}  // namespace

Result<Listener> Listener::open(const protocol::Address& address) {
  std::string host = address.host;
  if (host.front() == '[') host = host.substr(1, host.size() - 2);
  Result<UniqueFd> fd =
      host == "*" ? listen_everywhere(address.port) : listen_on_host(host, address.port);
  if (!fd.ok()) return fd.status();
  Listener listener;
  listener.socket_ = std::move(fd).value();
  protocol::Address bound = address;
  bound.port = port_of(listener.socket_.get());
  listener.endpoint_ = bound.endpoint();
  return listener;
}

Result<int> Listener::copy() {
  copy_ = ::fcntl(socket_.get(), F_DUPFD_CLOEXEC, 3);
  if (copy_ < 0) return Status::from_errno(errno, "F_DUPFD_CLOEXEC");
  return copy_;
}

Status Listener::rest(bool resting) {
  // A filter that drops what strangers send: a listener that only is not asked for connections
  // would keep libzmq awake.
  sock_filter nothing[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program = {1, nothing};
  const int unused = 0;
  const int done =
      resting ? ::setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program))
              : ::setsockopt(socket_.get(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
  return done == 0 ? ok_status() : Status::from_errno(errno, "filter");
}

Status Listener::give_up() {
  // In its place a socket at which nobody arrives; libzmq may be asking it just now.
  sockaddr_in nowhere{};
  nowhere.sin_family = AF_INET;
  nowhere.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Result<UniqueFd> other = listen_at(reinterpret_cast<sockaddr*>(&nowhere), sizeof(nowhere), false);
  if (!other.ok()) return other.status();
  if (::dup3(other->get(), copy_, O_CLOEXEC) < 0) return Status::from_errno(errno, "dup3");
  socket_ = std::move(other).value();
  return rest(true);
}

}  // namespace vgpu::net
