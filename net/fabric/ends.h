// The two ends of a session between hosts: what the control plane starts once it has agreed on one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_ENDS_H_
#define VGPU_NET_FABRIC_ENDS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "net/fabric/fabric.h"
#include "net/fabric/link.h"
#include "protocol/transport/transport.h"

namespace vgpu::net {

// --- guest
// -----------------------------------------------------------------------------------------

// Where a session waits for its guest.
struct FabricTarget {
  Provider provider;
  std::string address;        // as FabricListener::address() named it
  std::string fallback_host;  // of the control plane's address: for listeners at any address
  Secret secret{};
};

// What stands between the channel and the fabric, if anything (transport emulated).
using LinkWrapper = std::function<std::unique_ptr<Link>(std::unique_ptr<Link>)>;

// The guest's control plane, as a data connection that was cut needs it. One thread.
class Resumer {
 public:
  virtual ~Resumer() = default;
  // How long a session may be without its connection.
  virtual int grace_ms() const = 0;
  // Asks for a connection with this epoch and waits for up to timeout_ms, or until *stop, for where
  // it is taken. kTimedOut: not yet, ask again. Anything else: the session is over.
  virtual Result<FabricTarget> another(uint32_t epoch, int timeout_ms,
                                       const std::atomic<bool>& stop) = 0;
};

// Connects, and mirrors a channel of these sizes: the guest's transport, which has a mover. The
// calling thread waits up to timeout_ms. Without `resumer` a cut is the end of it.
Result<std::unique_ptr<protocol::Transport>> connect_fabric(
    const FabricTarget& target, const protocol::ChannelSizes& sizes, int timeout_ms,
    std::unique_ptr<Resumer> resumer = nullptr, const LinkWrapper& wrapper = nullptr);

// --- server
// ----------------------------------------------------------------------------------------

// What a worker gave to whoever attached as its guest.
struct WorkerEnd {
  int memory_fd = -1;      // sealed; of the channel
  int connection_fd = -1;  // hangs up when the worker is gone
  protocol::ChannelSizes sizes;
};

// The server's control plane, as a session whose data connection was cut needs it.
class Keeper {
 public:
  virtual ~Keeper() = default;
  virtual int grace_ms() const = 0;
  // The epoch of the connection that the guest asks for, if it has asked. kTimedOut: it has not.
  // Anything else: the session is to end.
  virtual Result<uint32_t> wanted() = 0;
  // Tells the guest where.
  virtual Status offer(uint32_t epoch, const std::string& address, const Secret& secret) = 0;
  // Listens for the next connection, with a secret of its own.
  virtual Result<std::unique_ptr<FabricListener>> listen(Secret* secret) = 0;
};

// Takes the one connection that shows `secret`, then bridges between it and the worker until one of
// them is gone. A cut connection is followed by another that the guest asks `keeper` for (null:
// there is none). `end_fd` (-1: never) is readable or hung up when the keeper is to be asked, or
// without one the session is to end. Blocks. ok() when one side has just gone; kTimedOut when no
// guest came, or came back.
Status serve_session(std::unique_ptr<FabricListener> listener, const Secret& secret,
                     const WorkerEnd& worker, int end_fd, Keeper* keeper = nullptr);

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_ENDS_H_
