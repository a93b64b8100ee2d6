// One connection that is refused, or not.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/knock.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/unique_fd.h"
#include "protocol/transport/connect.h"

namespace vgpu::net {

bool nobody_listens(const std::string& endpoint, int timeout_ms) {
  const auto address = protocol::parse_address(endpoint);
  if (!address.ok()) return false;
  std::string host = address->host;
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(address->port).c_str(), &hints, &found) != 0)
    return false;
  const UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (socket.valid() && ::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0)
    error = errno;
  ::freeaddrinfo(found);
  if (error == EINPROGRESS) {
    error = 0;
    pollfd entry{socket.get(), POLLOUT, 0};
    socklen_t bytes = sizeof(error);
    if (::poll(&entry, 1, timeout_ms) > 0)
      (void)::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  }
  return error == ECONNREFUSED;
}

}  // namespace vgpu::net
