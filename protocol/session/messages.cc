// Control messages over the socket, and the choice of what to decode.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/session/messages.h"

#include <utility>

#include "protocol/session/decode_message.h"
#include "protocol/transport/control_socket.h"

namespace vgpu::protocol {

const char* message_name(const Message& message) {
  static constexpr const char* kNames[] = {
      "Hello",         "HelloReply",  "Refusal",      "InfoRequest", "InfoReply", "StopRequest",
      "StopReply",     "NetAttach",   "NetAttached",  "NetBeat",     "NetDetach", "NetEnded",
      "GuestsRequest", "GuestsReply", "SteerRequest", "SteerReply",  "NetResume", "NetResumed"};
  static_assert(std::size(kNames) == std::variant_size_v<Message>);
  return kNames[message.index()];
}

Result<Message> decode_message(std::span<const uint8_t> bytes) {
  if (bytes.size() > kControlMessageBytesMax) {
    return Status(StatusCode::kMalformed, "control message beyond the limits");
  }
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/8, /*max_tables=*/1024);
  if (!fb::VerifyMessageBuffer(verifier)) {
    return Status(StatusCode::kMalformed, "control message is not a valid FlatBuffer");
  }
  const fb::Message* message = fb::GetMessage(bytes.data());
  // The verifier lets a union through that has a type and no table.
  if (message->body() == nullptr) {
    return Status(StatusCode::kMalformed, "control message without a body");
  }
  switch (message->body_type()) {
    case fb::Body::Hello:
      return decode_hello(*message->body_as_Hello());
    case fb::Body::HelloReply:
      return decode_hello_reply(*message->body_as_HelloReply());
    case fb::Body::Refusal:
      return decode_refusal(*message->body_as_Refusal());
    case fb::Body::InfoRequest:
      return Message(InfoRequest{});
    case fb::Body::InfoReply:
      return decode_info_reply(*message->body_as_InfoReply());
    case fb::Body::StopRequest:
      return Message(StopRequest{message->body_as_StopRequest()->force()});
    case fb::Body::StopReply:
      return Message(StopReply{message->body_as_StopReply()->guests_left()});
    case fb::Body::NetAttach:
      return decode_net_attach(*message->body_as_NetAttach());
    case fb::Body::NetAttached:
      return decode_net_attached(*message->body_as_NetAttached());
    case fb::Body::NetBeat:
      return Message(
          NetBeat{message->body_as_NetBeat()->session(), message->body_as_NetBeat()->number()});
    case fb::Body::NetDetach:
      return Message(NetDetach{message->body_as_NetDetach()->session()});
    case fb::Body::NetEnded:
      return decode_net_ended(*message->body_as_NetEnded());
    case fb::Body::GuestsRequest:
      return Message(GuestsRequest{message->body_as_GuestsRequest()->after()});
    case fb::Body::GuestsReply:
      return decode_guests_reply(*message->body_as_GuestsReply());
    case fb::Body::SteerRequest:
      return decode_steer_request(*message->body_as_SteerRequest());
    case fb::Body::SteerReply:
      return decode_steer_reply(*message->body_as_SteerReply());
    case fb::Body::NetResume:
      return decode_net_resume(*message->body_as_NetResume());
    case fb::Body::NetResumed:
      return decode_net_resumed(*message->body_as_NetResumed());
    case fb::Body::FiguresRequest:  // asked for by itself: figures.h
    case fb::Body::FiguresReply:
    case fb::Body::NONE:
      break;
  }
  return Status(StatusCode::kMalformed, "control message of an unknown kind");
}

Status send_message(int socket, const Message& message, std::span<const int> descriptors) {
  return send_frame(socket, encode_message(message), descriptors);
}

Result<ReceivedMessage> receive_message(int socket, int timeout_ms) {
  Result<ControlFrame> frame = receive_frame(socket, timeout_ms);
  if (!frame.ok()) return frame.status();
  Result<Message> message = decode_message(frame->bytes);
  if (!message.ok()) return message.status();
  return ReceivedMessage{std::move(message).value(), std::move(frame->descriptors)};
}

}  // namespace vgpu::protocol
