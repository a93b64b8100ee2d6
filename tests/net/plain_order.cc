// Coding of what is said around a gate's start.
// SPDX-License-Identifier: Apache-2.0
#include "tests/net/plain_order.h"

#include <cstring>
#include <utility>

namespace vgpu::net {
namespace {

constexpr uint32_t kOrderMagic = 0x4f504776;  // "vGPO"
constexpr uint32_t kReadyMagic = 0x52504776;  // "vGPR"

struct OrderFront {
  uint32_t magic, version;
  Secret secret;
};
struct ReadyFront {
  uint32_t magic, version;
  char address[120];  // ends in a zero
};

Status malformed(const char* what) { return Status(StatusCode::kMalformed, what); }

template <typename Front>
std::vector<uint8_t> join(const Front& front, const protocol::Message& message) {
  const std::vector<uint8_t> rest = protocol::encode_message(message);
  std::vector<uint8_t> frame(sizeof(front));
  std::memcpy(frame.data(), &front, sizeof(front));
  frame.insert(frame.end(), rest.begin(), rest.end());
  return frame;
}

// The message behind a front, which is copied out.
template <typename Front>
Result<protocol::Message> part(std::span<const uint8_t> frame, uint32_t magic, Front* front) {
  if (frame.size() <= sizeof(*front)) return malformed("frame shorter than its front");
  std::memcpy(front, frame.data(), sizeof(*front));
  if (front->magic != magic || front->version != 1) return malformed("foreign frame");
  // Copied: the verifier wants the message aligned.
  const std::vector<uint8_t> rest(frame.begin() + sizeof(*front), frame.end());
  return protocol::decode_message(rest);
}

}  // namespace

std::vector<uint8_t> encode_order(const PlainOrder& order) {
  return join(OrderFront{kOrderMagic, 1, order.secret}, order.hello);
}

Result<PlainOrder> decode_order(std::span<const uint8_t> frame) {
  OrderFront front{};
  Result<protocol::Message> message = part(frame, kOrderMagic, &front);
  if (!message.ok()) return message.status();
  auto* hello = std::get_if<protocol::Hello>(&*message);
  if (hello == nullptr) return malformed("an order without a hello");
  return PlainOrder{front.secret, std::move(*hello)};
}

std::vector<uint8_t> encode_ready(const PlainReady& ready) {
  ReadyFront front{kReadyMagic, 1, {}};
  ready.address.copy(front.address, sizeof(front.address) - 1);
  return join(front, ready.reply);
}

Result<PlainReady> decode_ready(std::span<const uint8_t> frame) {
  if (Result<protocol::Message> alone = protocol::decode_message(frame); alone.ok()) {
    const auto* refusal = std::get_if<protocol::Refusal>(&*alone);
    if (refusal == nullptr) return malformed("a gate answered with another message");
    return Status(StatusCode::kRefused, refusal->text, refusal->code);
  }
  ReadyFront front{};
  Result<protocol::Message> message = part(frame, kReadyMagic, &front);
  if (!message.ok()) return message.status();
  auto* reply = std::get_if<protocol::HelloReply>(&*message);
  front.address[sizeof(front.address) - 1] = '\0';
  if (reply == nullptr || front.address[0] == '\0') return malformed("a gate is ready for nothing");
  return PlainReady{front.address, std::move(*reply)};
}

}  // namespace vgpu::net
