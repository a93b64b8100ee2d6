// Whole messages with descriptors over a unix socket of type SOCK_SEQPACKET.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_CONTROL_SOCKET_H_
#define VGPU_PROTOCOL_TRANSPORT_CONTROL_SOCKET_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::protocol {

// One received message. Descriptors are CLOEXEC and close themselves unless taken.
struct ControlFrame {
  std::vector<uint8_t> bytes;
  std::vector<UniqueFd> descriptors;
};

// The functions retry EINTR and never raise SIGPIPE. The socket keeps message boundaries, so one
// send is one receive.

// Sends one message with borrowed descriptors. Blocks while the peer's buffer is full, up to
// timeout_ms (< 0: no limit).
Status send_frame(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors = {},
                  int timeout_ms = 5000);

// Receives one message. kTimedOut after timeout_ms (< 0: no limit, 0: only what is there);
// kUnavailable when the peer is gone; kMalformed when it is empty, longer than
// kControlMessageBytesMax or carries more than kControlDescriptorsMax descriptors (all are closed).
Result<ControlFrame> receive_frame(int socket, int timeout_ms);

// Who is at the other end, as the kernel saw it at connect.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
Result<PeerCredentials> peer_credentials(int socket);
// All its groups, as far as the kernel says.
std::vector<gid_t> peer_groups(int socket, const PeerCredentials& peer);

// A descriptor that polls readable when process `pid` ends. The peer's socket stays the proof of
// identity: pids are used again.
Result<UniqueFd> open_pidfd(pid_t pid);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_CONTROL_SOCKET_H_
