// Where everything lies in the memory that a host shares with one virtual machine.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_MAILBOX_LAYOUT_H_
#define VGPU_PROTOCOL_MAILBOX_LAYOUT_H_

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "protocol/limits.h"
#include "protocol/ring/layout.h"

//   offset 0          RegionHeader   one page: identity, and lines that one side writes
//          64 KiB     mail to the host, kMailRingBytes
//          +512 KiB   mail to the guest, kMailRingBytes
//          2 MiB      pieces, each the memory of one channel (protocol/ring/layout.h)
//
// The host's program makes the region and is the only one on the host that reads this part; in the
// guest it is the agent. Both believe nothing that the other writes.

namespace vgpu::protocol {

inline constexpr uint32_t kRegionMagic = 0x52504776;  // "vGPR"
inline constexpr uint32_t kRegionVersion = 2;         // raised by any change of this layout
inline constexpr uint64_t kMailToHostOffset = 64 * 1024;
inline constexpr uint64_t kMailToGuestOffset = kMailToHostOffset + kMailRingBytes;
static_assert(kMailToGuestOffset + kMailRingBytes <= kRegionControlBytes);

struct alignas(kCacheLineBytes) RegionIdentity {
  std::atomic<uint32_t> magic;  // written last; release by the host, acquire by the guest
  uint32_t version;
  uint64_t region_bytes;
  uint32_t pieces;
  uint32_t reserved;
  uint64_t piece_bytes;
};

// Each side's word of itself. An epoch is a number that a program chooses when it starts: another
// one means that everything said before is void. All release by the owner, acquire by the peer.
struct alignas(kCacheLineBytes) LifeLine {
  std::atomic<uint64_t> epoch;             // never 0 once the program is there
  std::atomic<uint64_t> answer;            // the peer's epoch that was taken up
  std::atomic<uint32_t> beat;              // raised every kBeatNs
  std::atomic<uint32_t> takes_interrupts;  // guest; set before the epoch, relaxed
};

struct RegionHeader {
  RegionIdentity identity;
  LifeLine host;
  LifeLine guest;
  PositionLine to_host_tail;   // guest writes
  PositionLine to_host_head;   // host writes
  PositionLine to_guest_tail;  // host writes
  PositionLine to_guest_head;  // guest writes
};
static_assert(sizeof(RegionIdentity) == 64 && sizeof(LifeLine) == 64);
static_assert(sizeof(RegionHeader) <= kPageBytes);

enum class MailKind : uint16_t {
  kSay = 1,  // a control message of connection `connection`; the first one opens it
  kBye = 2,  // this side is done with the connection; it is over when both have said so
};

// In front of each piece of mail; `bytes` of payload follow, and then the next header, on the next
// multiple of 16.
struct MailHeader {
  uint32_t bytes;
  uint16_t kind;        // MailKind
  uint16_t connection;  // below kVmConnectionsMax; chosen by the guest, used again when it is over
  uint64_t reserved;
};
static_assert(sizeof(MailHeader) == 16);

// How a region of that size is cut; fails when not even one channel fits.
struct RegionCut {
  uint64_t region_bytes = 0;
  uint32_t pieces = 0;
  uint64_t piece_bytes = 0;

  static Result<RegionCut> of(uint64_t region_bytes, uint32_t pieces);
  uint64_t offset_of(uint32_t piece) const { return kRegionControlBytes + piece * piece_bytes; }
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_MAILBOX_LAYOUT_H_
