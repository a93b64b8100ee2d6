// The two mailboxes of a region: control messages between a host and its virtual machine.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_MAILBOX_MAILBOX_H_
#define VGPU_PROTOCOL_MAILBOX_MAILBOX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/mailbox/layout.h"

namespace vgpu::protocol {

struct Mail {
  MailKind kind = MailKind::kSay;
  uint32_t connection = 0;
  std::vector<uint8_t> bytes;  // of kSay: a control message, not checked
};

enum class MailResult : uint8_t {
  kMail,
  kEmpty,
  kMalformed,  // the peer broke the rules; every later look says the same until reset()
};

// One side's two ends. Not thread-safe. Everything that the peer wrote is copied and checked; its
// own positions are private and never read back.
class Mailbox {
 public:
  // `memory` is the control area of a region, borrowed.
  Mailbox(std::byte* memory, bool host);

  // As at the start of an epoch: both rings empty. Each side resets what it writes.
  void reset();

  // Copies the mail and publishes it. kResourceExhausted when the peer has left no room.
  Status send(MailKind kind, uint32_t connection, std::span<const uint8_t> bytes = {});
  MailResult receive(Mail* mail);

 private:
  struct Ring {
    std::byte* bytes;
    PositionLine* tail;
    PositionLine* head;
    uint64_t position = 0;  // private truth: of the tail when sending, of the head when receiving
  };
  static void copy_in(const Ring& ring, uint64_t position, std::span<const uint8_t> bytes);
  static void copy_out(const Ring& ring, uint64_t position, std::span<uint8_t> bytes);

  Ring out_, in_;
  bool malformed_ = false;
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_MAILBOX_MAILBOX_H_
