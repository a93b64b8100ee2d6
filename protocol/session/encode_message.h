// From plain values to FlatBuffers tables; private to protocol/session.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_SESSION_ENCODE_MESSAGE_H_
#define VGPU_PROTOCOL_SESSION_ENCODE_MESSAGE_H_

#include <string>

#include "protocol/session/messages.h"
#include "protocol/session/tables.h"

namespace vgpu::protocol {

using Builder = flatbuffers::FlatBufferBuilder;

struct Encoded {
  fb::Body type;
  flatbuffers::Offset<void> table;
};

// Cut at its limit.
inline flatbuffers::Offset<flatbuffers::String> text(Builder& to, const std::string& from,
                                                     size_t bytes_max = kNameBytesMax) {
  return put_text(to, from, bytes_max);
}

Encoded encode(Builder& to, const GuestsRequest& request);
Encoded encode(Builder& to, const GuestsReply& reply);
Encoded encode(Builder& to, const SteerRequest& request);
Encoded encode(Builder& to, const SteerReply& reply);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_SESSION_ENCODE_MESSAGE_H_
