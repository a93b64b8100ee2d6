// What the two ends of a mirrored channel say to each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_NET_FABRIC_MESSAGES_H_
#define VGPU_NET_FABRIC_MESSAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "net/fabric/fabric_limits.h"
#include "protocol/limits.h"
#include "protocol/ring/layout.h"

//   Window   each side, first: where the peer may write, and how far this side had come when the
//            connection before this one ended (resume: decision 0070)
//              the gate's window:  ring, then up-slab;  the guest's: down-slab
//   Update   guest: what it has published. What the message tells of was written before it.
//              UpdateHeader, Expectation[expectations], inline_bytes of the ring
//   Report   gate: what the worker has published
//              ReportHeader, PageWords if kReportHasPage, HostCallEntry[calls],
//              then for each of replies: ReplyEntry, payload, down-bytes (each up to a multiple
//              of 8)
//   Ack      both: nothing but `acked`
//
// Little-endian structs, each message one fi_send. Whoever receives copies and checks; the first
// fault ends the connection.

namespace vgpu::net {

enum class MessageKind : uint32_t { kWindow = 1, kUpdate = 2, kReport = 3, kAck = 4 };

struct MessageHeader {
  MessageKind kind;
  uint32_t bytes;  // of the whole message
  uint64_t acked;  // messages that this side has received
};

// What one side has received and applied since the session began. Zeros at first.
struct Positions {
  uint64_t tail;          // gate: of the ring, as published to the worker
  uint64_t finished;      // gate: host calls that the worker was told of
  uint64_t expectations;  // gate
  uint64_t head;          // guest: of the ring
  uint64_t posted;        // guest: host calls
  uint64_t answers;       // guest
};

struct WindowMessage {
  MessageHeader header;
  uint32_t version;  // kNetVersion
  uint32_t epoch;    // of the connection: 1, and more with each that follows it
  uint64_t address;  // what the peer adds its offsets to
  uint64_t key;
  uint64_t bytes;
  Positions positions;
};

struct UpdateHeader {
  MessageHeader header;
  uint64_t tail;      // as in PositionLine
  uint64_t finished;  // host calls
  uint32_t expectations;
  uint32_t inline_bytes;  // 0, or all from the tail of the last update to this one
};

// A record that is about to be seen names this reply slot, and its results come into this part of
// the down-slab.
struct Expectation {
  uint32_t slot;
  uint32_t reserved;
  uint64_t offset;
  uint64_t bytes;  // 0: none
};

inline constexpr uint32_t kReportHasPage = 1;
inline constexpr size_t kSequences = 4;  // executed, slab_retired, free_retired, output

struct ReportHeader {
  MessageHeader header;
  uint64_t head;
  uint64_t sequences[kSequences];
  uint64_t posted;  // host calls
  uint64_t moved;   // bytes written into the guest's window since the last report
  uint32_t session_state;
  int32_t session_error;
  uint32_t flags;
  uint16_t calls;
  uint16_t replies;
};

struct PageWords {
  int32_t sticky[protocol::kContextSlots];
  uint32_t held[protocol::kHoldWords];
  uint64_t backed_credit[protocol::kDevicesMax];
  uint64_t quota[protocol::kDevicesMax];
  bool operator==(const PageWords&) const = default;
};

struct ReplyEntry {
  uint32_t slot;
  int32_t result;
  uint32_t payload_bytes;
  uint32_t down_bytes;  // inline; 0 also when they were written into the window
};

static_assert(sizeof(MessageHeader) == 16 && sizeof(WindowMessage) == 96);
static_assert(sizeof(UpdateHeader) == 40 && sizeof(Expectation) == 24);
static_assert(sizeof(ReportHeader) == 88 && sizeof(PageWords) == 768 && sizeof(ReplyEntry) == 16);
static_assert(sizeof(UpdateHeader) + protocol::kReplySlots * sizeof(Expectation) +
                  kInlineRingBytesMax <=
              kMessageBytesMax);
static_assert(sizeof(ReportHeader) + sizeof(PageWords) +
                  protocol::kHostCallEntries * sizeof(protocol::HostCallEntry) +
                  sizeof(ReplyEntry) + protocol::kReplyPayloadBytesMax + kInlineDownBytesMax <=
              kMessageBytesMax);

constexpr size_t round_up_8(size_t bytes) { return (bytes + 7) & ~size_t{7}; }

// A message being put together, in a buffer of its own.
class MessageWriter {
 public:
  void clear() { used_ = 0; }
  size_t room() const { return buffer_.size() - used_; }
  // Appends bytes and zeros up to a multiple of 8. The caller has looked at room().
  void append(const void* data, size_t bytes);
  template <typename T>
  void append(const T& value) {
    append(&value, sizeof(value));
  }
  // Puts the final version of the first bytes in place.
  template <typename T>
  void set_front(const T& value) {
    __builtin_memcpy(buffer_.data(), &value, sizeof(value));
  }
  std::span<const std::byte> bytes() const { return {buffer_.data(), used_}; }

 private:
  alignas(8) std::array<std::byte, kMessageBytesMax> buffer_;
  size_t used_ = 0;
};

// Reads a received message once, front to back.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  // False: there is not so much.
  bool take(void* out, size_t bytes);
  template <typename T>
  bool take(T* out) {
    return take(out, sizeof(*out));
  }
  // The next bytes in place, up to a multiple of 8; empty with *ok = false when there are fewer.
  std::span<const std::byte> view(size_t bytes, bool* ok);
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

// The header of a message, checked: a kind that exists, and as long as it says.
bool read_header(std::span<const std::byte> message, MessageHeader* header);

// What an update says, checked as far as it can be without knowing what was said before.
struct Update {
  uint64_t tail = 0, finished = 0;
  std::vector<Expectation> expectations;  // slots and ranges exist
  std::span<const std::byte> inline_ring;
};
Status read_update(std::span<const std::byte> message, const protocol::ChannelSizes& sizes,
                   Update* update);

// What a report says, checked likewise.
struct Report {
  ReportHeader header{};
  bool has_page = false;
  PageWords page{};
  std::vector<protocol::HostCallEntry> calls;
  struct Answer {
    uint32_t slot = 0;
    int32_t result = 0;
    std::span<const std::byte> payload, down;
  };
  std::vector<Answer> answers;
};
Status read_report(std::span<const std::byte> message, Report* report);

}  // namespace vgpu::net

#endif  // VGPU_NET_FABRIC_MESSAGES_H_
