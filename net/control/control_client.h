// A guest's side of the control plane: asks a server, and stays in touch with it after attaching.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_CONTROL_CONTROL_CLIENT_H_
#define VGPU_NET_CONTROL_CONTROL_CLIENT_H_

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "net/control/keys.h"
#include "protocol/session/messages.h"
#include "protocol/transport/connect.h"

namespace vgpu::net {

struct ClientKeys {
  KeyPair own;
  std::string server;  // without which nobody is believed to be the server
};

struct ControlAnswer {
  Status status;           // why there is none; kRefused: the server's words
  int32_t cuda_error = 0;  // what cuInit gives then
  protocol::Message message = protocol::InfoRequest{};
  // After NetAttached: hangs up when the server, its gate or the session is gone. When it is shut
  // down, or closed, the session is given back.
  UniqueFd lifeline;
};

// Asks within timeout_ms, on a thread of its own that has descriptors of its own and takes no
// signals. After NetAttached the thread stays, until the lifeline ends; otherwise nothing stays.
ControlAnswer ask_server(const protocol::Address& address, ClientKeys keys,
                         const protocol::Message& request, int timeout_ms);

// For an attachment whose data connection stands: `liveness_fd` (borrowed) hangs up too when the
// lifeline (borrowed) does.
void tie_to_lifeline(int lifeline, int liveness_fd);

// The keys for a server: known_server_key and guest_key_path. Fails closed.
Result<ClientKeys> find_keys(const protocol::Address& address);

// Gives back what this process has attached, and waits a little until that is said; for exit.
void say_goodbye();

}  // namespace vgpu::net

#endif  // VGPU_NET_CONTROL_CONTROL_CLIENT_H_
