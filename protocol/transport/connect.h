// Server addresses: their grammar, the default, connecting and listening.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_CONNECT_H_
#define VGPU_PROTOCOL_TRANSPORT_CONNECT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::protocol {

// unix:/absolute/path             a server on this host
// tcp://host:port[?provider=NAME]  a server anywhere (docs/network.md); IPv6 as tcp://[::1]:port
// loop:                           a server inside this process (tests)
// A plain absolute path is taken as unix:. Other schemes give kNotSupported.
struct Address {
  enum class Kind : uint8_t { kUnix, kLoop, kTcp };
  Kind kind = Kind::kUnix;
  std::string path = {};      // kUnix
  std::string host = {};      // kTcp: a name or a number, [..] around those of IPv6; "*" to listen
  uint16_t port = 0;          // kTcp; 0 only to listen: any that is free
  std::string provider = {};  // kTcp: of the data connection; empty: as both sides prefer
  // kTcp: without what follows the port.
  std::string endpoint() const;
  std::string to_string() const;
};

Result<Address> parse_address(std::string_view text);

// Where a server is expected: VGPU_SERVER when set (and then its errors are reported), else the
// first of
// ${XDG_RUNTIME_DIR}/vgpu/vgpud.sock, /run/vgpu/vgpud.sock and /tmp/vgpu-UID/vgpud.sock that
// exists, else the first that could be.
Result<Address> default_address();

// Where vgpud listens by default: as above, but /run/vgpu for root, the user's own folder
// otherwise.
Address default_listen_address();

inline constexpr int kConnectTimeoutMs = 5000;

// A connected SOCK_SEQPACKET socket, CLOEXEC. kUnavailable: nobody listens there (the text names
// the path). kTimedOut: somebody does, but has not answered others for so long either.
Result<UniqueFd> connect_unix(const std::string& path, int timeout_ms = kConnectTimeoutMs);

// A listening socket, CLOEXEC, non-blocking. Makes the folder (mode 0700) when it is missing, and
// replaces a socket that no server answers on; kAlreadyExists when one does. `mode` is the socket's
// permission.
Result<UniqueFd> listen_unix(const std::string& path, unsigned mode);

// The next guest, CLOEXEC. kTimedOut when none waits (the listener is non-blocking).
Result<UniqueFd> accept_unix(int listener);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_CONNECT_H_
