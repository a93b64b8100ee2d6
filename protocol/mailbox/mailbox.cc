// Copy, check, use.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/mailbox/mailbox.h"

#include <algorithm>
#include <cstring>

namespace vgpu::protocol {
namespace {

constexpr uint64_t room_of(uint64_t payload) {
  return sizeof(MailHeader) +
         (payload + sizeof(MailHeader) - 1) / sizeof(MailHeader) * sizeof(MailHeader);
}

}  // namespace

Result<RegionCut> RegionCut::of(uint64_t region_bytes, uint32_t pieces) {
  RegionCut cut{region_bytes, pieces, 0};
  if (region_bytes > kRegionBytesMax || region_bytes <= kRegionControlBytes || pieces == 0 ||
      pieces > kVmConnectionsMax) {
    return Status(StatusCode::kInvalidArgument, "a region of that size or number of pieces");
  }
  cut.piece_bytes = (region_bytes - kRegionControlBytes) / pieces / kPageBytes * kPageBytes;
  if (!ChannelSizes::fitting(cut.piece_bytes).check().ok()) {
    return Status(StatusCode::kInvalidArgument, "pieces of the region are too small for a channel");
  }
  return cut;
}

Mailbox::Mailbox(std::byte* memory, bool host) {
  auto* header = reinterpret_cast<RegionHeader*>(memory);
  const Ring to_host{memory + kMailToHostOffset, &header->to_host_tail, &header->to_host_head};
  const Ring to_guest{memory + kMailToGuestOffset, &header->to_guest_tail, &header->to_guest_head};
  out_ = host ? to_guest : to_host;
  in_ = host ? to_host : to_guest;
}

void Mailbox::reset() {
  malformed_ = false;
  out_.position = 0;
  in_.position = 0;
  out_.tail->position.store(0, std::memory_order_release);
  in_.head->position.store(0, std::memory_order_release);
}

void Mailbox::copy_in(const Ring& ring, uint64_t position, std::span<const uint8_t> bytes) {
  const uint64_t place = position % kMailRingBytes;
  const uint64_t first = std::min<uint64_t>(bytes.size(), kMailRingBytes - place);
  if (first != 0) std::memcpy(ring.bytes + place, bytes.data(), first);
  if (first != bytes.size()) std::memcpy(ring.bytes, bytes.data() + first, bytes.size() - first);
}

void Mailbox::copy_out(const Ring& ring, uint64_t position, std::span<uint8_t> bytes) {
  const uint64_t place = position % kMailRingBytes;
  const uint64_t first = std::min<uint64_t>(bytes.size(), kMailRingBytes - place);
  if (first != 0) std::memcpy(bytes.data(), ring.bytes + place, first);
  if (first != bytes.size()) std::memcpy(bytes.data() + first, ring.bytes, bytes.size() - first);
  // Keeps the compiler from reading shared memory a second time instead of keeping the copy.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

Status Mailbox::send(MailKind kind, uint32_t connection, std::span<const uint8_t> bytes) {
  if (bytes.size() > kControlMessageBytesMax || connection >= kVmConnectionsMax) {
    return Status(StatusCode::kInvalidArgument, "mail beyond the limits");
  }
  // acquire: partner is receive(), so what it has read may be written over.
  const uint64_t head = out_.head->position.load(std::memory_order_acquire);
  const uint64_t used = out_.position - head;  // huge when the peer claims what cannot be
  if (used > kMailRingBytes || kMailRingBytes - used < room_of(bytes.size())) {
    return Status(StatusCode::kResourceExhausted, "the peer does not read its mail");
  }
  const MailHeader header{static_cast<uint32_t>(bytes.size()), static_cast<uint16_t>(kind),
                          static_cast<uint16_t>(connection), 0};
  uint8_t raw[sizeof(header)];
  std::memcpy(raw, &header, sizeof(header));
  copy_in(out_, out_.position, raw);
  copy_in(out_, out_.position + sizeof(header), bytes);
  out_.position += room_of(bytes.size());
  // release: partner is the acquire in receive().
  out_.tail->position.store(out_.position, std::memory_order_release);
  return ok_status();
}

MailResult Mailbox::receive(Mail* mail) {
  if (malformed_) return MailResult::kMalformed;
  const uint64_t tail = in_.tail->position.load(std::memory_order_acquire);  // read once
  const uint64_t there = tail - in_.position;
  if (there == 0) return MailResult::kEmpty;
  malformed_ = true;  // until it has been found well formed
  if (there > kMailRingBytes || there < sizeof(MailHeader)) return MailResult::kMalformed;
  MailHeader header;
  uint8_t raw[sizeof(header)];
  copy_out(in_, in_.position, raw);
  std::memcpy(&header, raw, sizeof(header));
  if (header.bytes > kControlMessageBytesMax || room_of(header.bytes) > there ||
      header.connection >= kVmConnectionsMax ||
      (header.kind != static_cast<uint16_t>(MailKind::kSay) &&
       header.kind != static_cast<uint16_t>(MailKind::kBye))) {
    return MailResult::kMalformed;
  }
  malformed_ = false;
  mail->kind = static_cast<MailKind>(header.kind);
  mail->connection = header.connection;
  mail->bytes.resize(header.bytes);
  copy_out(in_, in_.position + sizeof(header), mail->bytes);
  in_.position += room_of(header.bytes);
  in_.head->position.store(in_.position, std::memory_order_release);  // partner: send()
  return MailResult::kMail;
}

}  // namespace vgpu::protocol
