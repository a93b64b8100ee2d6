// Tagged descriptors over the control socket.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/transport/descriptor.h"

#include <cstring>

#include "protocol/transport/control_socket.h"

namespace vgpu::protocol {
namespace {

struct TagMessage {
  uint64_t magic;
  uint64_t tag;
};

}  // namespace

Status send_tagged_descriptor(int socket, int fd, uint64_t tag) {
  const TagMessage message{kDescriptorMagic, tag};
  uint8_t bytes[sizeof(message)];
  std::memcpy(bytes, &message, sizeof(message));
  return send_frame(socket, bytes, std::span<const int>(&fd, 1));
}

Result<std::pair<UniqueFd, uint64_t>> receive_tagged_descriptor(int socket, int timeout_ms) {
  Result<ControlFrame> frame = receive_frame(socket, timeout_ms);
  if (!frame.ok()) return frame.status();
  TagMessage message{};
  if (frame->bytes.size() != sizeof(message) || frame->descriptors.size() != 1) {
    return Status(StatusCode::kMalformed, "expected one descriptor with its tag");
  }
  std::memcpy(&message, frame->bytes.data(), sizeof(message));
  if (message.magic != kDescriptorMagic) {
    return Status(StatusCode::kMalformed, "descriptor message without its mark");
  }
  return std::make_pair(std::move(frame->descriptors[0]), message.tag);
}

}  // namespace vgpu::protocol
