// A vgpud with a gate on the loopback device, and what tests do with keys.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_LIFECYCLE_NETWORK_SERVER_H_
#define VGPU_TESTS_LIFECYCLE_NETWORK_SERVER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "net/control/control_client.h"
#include "net/control/keys.h"
#include "tests/lifecycle/server_process.h"

namespace vgpu::testing {

net::KeyPair fresh_keys();

// Keys in a folder of its own; the server listens at a port that was free.
class NetworkServer {
 public:
  explicit NetworkServer(std::vector<std::string> more = {});
  ~NetworkServer();

  void start();  // waits until the gate listens, too
  ServerProcess& vgpud() { return *vgpud_; }

  // Admits a new key as `tenant`.
  net::KeyPair admit(const std::string& tenant);
  void revoke(const std::string& whom);
  // What a guest with this key attaches with.
  net::ClientKeys keys_for(const net::KeyPair& own) const;

  protocol::Address address() const { return address_; }
  const std::string& public_key() const { return key_.public_key; }
  const std::string& folder() const { return folder_; }
  // Of the gate, now; nothing when it does not listen.
  std::optional<protocol::NetworkUse> use() const;
  std::vector<protocol::GuestInfo> guests() const;
  // Processes of the gate: itself and its sessions, the oldest first.
  std::vector<pid_t> gates() const;

 private:
  std::string folder_;
  net::KeyPair key_;
  protocol::Address address_;
  std::unique_ptr<ServerProcess> vgpud_;
};

// Attaches over the network, up to where the data connection would be made.
net::ControlAnswer net_attach(const NetworkServer& server, const net::KeyPair& own,
                              protocol::NetAttach asked);
net::ControlAnswer net_attach(const NetworkServer& server, const net::KeyPair& own);

// How long until a lifeline hangs up, in milliseconds; -1: not within limit_ms.
double hangs_up_after(int lifeline, int limit_ms);

}  // namespace vgpu::testing

#endif  // VGPU_TESTS_LIFECYCLE_NETWORK_SERVER_H_
