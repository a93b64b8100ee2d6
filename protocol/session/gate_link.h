// What vgpud and its gates say to each other over their socket pair.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_GATE_LINK_H_
#define VGPU_PROTOCOL_SESSION_GATE_LINK_H_

#include <cstdint>

namespace vgpu::protocol {

// Both are built from one tree and installed together, so this is a plain struct.
inline constexpr uint64_t kGateMagic = 0x766770'67'0001;  // raised with every change below

enum class GateMessageKind : uint32_t { kReport = 1, kGuest };

struct GateMessage {
  uint64_t magic = kGateMagic;
  GateMessageKind kind = GateMessageKind::kReport;
  uint32_t reserved = 0;
};

// gate -> vgpud: a remote guest whose key was checked. Descriptor: the connection of the process
// that stands for it. The Hello's bytes follow, with the tenant to which the key belongs.
struct GateGuest {
  GateMessage head = {kGateMagic, GateMessageKind::kGuest, 0};
  int32_t pid = 0;  // of that process
  uint32_t reserved = 0;
};

// gate -> vgpud: first once it listens, then whenever a figure has changed, at most once a second.
struct GateReport {
  GateMessage head;
  char endpoint[300] = {};   // where it listens
  char public_key[48] = {};  // the server's, in Z85
  uint32_t guests = 0;       // sessions now
  uint32_t connections = 0;  // now
  uint64_t attached = 0;     // the others count since the gate began
  uint64_t refused = 0;      // attaches of admitted keys
  uint64_t strangers = 0;    // connections without an admitted key
  uint64_t malformed = 0;    // messages that break the protocol
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_GATE_LINK_H_
