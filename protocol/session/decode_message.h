// From verified FlatBuffers tables to plain values; private to protocol/session.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_DECODE_MESSAGE_H_
#define VGPU_PROTOCOL_SESSION_DECODE_MESSAGE_H_

#include "control_generated.h"
#include "protocol/session/messages.h"

namespace vgpu::protocol {

// Each checks ranges, which the FlatBuffers verifier does not know: kMalformed names the field.
Result<Message> decode_hello(const fb::Hello& table);
Result<Message> decode_hello_reply(const fb::HelloReply& table);
Result<Message> decode_refusal(const fb::Refusal& table);
Result<Message> decode_info_reply(const fb::InfoReply& table);
Result<Message> decode_net_attach(const fb::NetAttach& table);
Result<Message> decode_net_attached(const fb::NetAttached& table);
Result<Message> decode_net_ended(const fb::NetEnded& table);
Result<Message> decode_net_resume(const fb::NetResume& table);
Result<Message> decode_net_resumed(const fb::NetResumed& table);
Result<Message> decode_guests_reply(const fb::GuestsReply& table);
Result<Message> decode_steer_request(const fb::SteerRequest& table);
Result<Message> decode_steer_reply(const fb::SteerReply& table);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_DECODE_MESSAGE_H_
