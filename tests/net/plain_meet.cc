// Asking for a session.
// SPDX-License-Identifier: Apache-2.0
#include "tests/net/plain_meet.h"

#include <sys/random.h>

#include <cerrno>

#include "protocol/transport/connect.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::net {

Result<Met> meet(const std::string& path, const protocol::Hello& hello, int timeout_ms) {
  PlainOrder order;
  order.hello = hello;
  if (::getrandom(order.secret.data(), order.secret.size(), 0) < 0)
    return Status::from_errno(errno, "getrandom");
  Result<UniqueFd> gate = protocol::connect_unix(path);
  if (!gate.ok()) return gate.status();
  VGPU_RETURN_IF_ERROR(protocol::send_frame(gate->get(), encode_order(order)));
  Result<protocol::ControlFrame> frame = protocol::receive_frame(gate->get(), timeout_ms);
  if (!frame.ok()) return frame.status();
  Result<PlainReady> ready = decode_ready(frame->bytes);
  if (!ready.ok()) return ready.status();
  return Met{std::move(ready->reply), {{}, ready->address, "", order.secret}};
}

}  // namespace vgpu::net
