// The two ends of a session between hosts: what the control plane starts once it has agreed on one.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_ENDS_H_
#define VGPU_NET_FABRIC_ENDS_H_

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

// Connects, and mirrors a channel of these sizes: the guest's transport, which has a mover. The
// calling thread waits up to timeout_ms.
Result<std::unique_ptr<protocol::Transport>> connect_fabric(const FabricTarget& target,
                                                            const protocol::ChannelSizes& sizes,
                                                            int timeout_ms,
                                                            const LinkWrapper& wrapper = nullptr);

// --- server
// ----------------------------------------------------------------------------------------

// What a worker gave to whoever attached as its guest.
struct WorkerEnd {
  int memory_fd = -1;      // sealed; of the channel
  int connection_fd = -1;  // hangs up when the worker is gone
  protocol::ChannelSizes sizes;
};

// Takes the one connection that shows `secret`, then bridges between it and the worker until one of
// them is gone or `end_fd` is readable or hung up (-1: never). Blocks. ok() when one side has just
// gone; kTimedOut when no guest came.
Status serve_session(std::unique_ptr<FabricListener> listener, const Secret& secret,
                     const WorkerEnd& worker, int end_fd);

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_ENDS_H_
