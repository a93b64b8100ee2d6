// The gate's listening socket, which it can let rest and give up while connections stay.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_LISTENER_H_
#define VGPU_NET_CONTROL_LISTENER_H_

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/transport/connect.h"

namespace vgpu::net {

// libzmq closes all connections of a listener with it, so that the socket is ours, and libzmq has a
// copy of it (ZMQ_USE_FD).
class Listener {
 public:
  // Listens at the address, host "*": at all of both families. kAlreadyExists: it is taken.
  static Result<Listener> open(const protocol::Address& address);

  // With the port that was free.
  const std::string& endpoint() const { return endpoint_; }

  // A copy for a socket of libzmq's, which closes it. The one before is forgotten.
  Result<int> copy();
  // Whether new connections are taken; while they are not, they wait for their senders' next try.
  Status rest(bool resting);
  // Lets go of the address for good. libzmq keeps a copy that nobody can connect to; it must not be
  // closed any more, so that the process then ends by _exit.
  Status give_up();

 private:
  Listener() = default;
  UniqueFd socket_;
  std::string endpoint_;
  int copy_ = -1;
};

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_LISTENER_H_
