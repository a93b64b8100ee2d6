// A descriptor with a number, as one message: how memory of cuMemHostAlloc reaches the worker.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_
#define VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_

#include <cstdint>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"

namespace vgpu::protocol {

// The message is 16 bytes: kDescriptorMagic, tag; and exactly one descriptor.
inline constexpr uint64_t kDescriptorMagic = 0x6466'5550'4776'0001;

Status send_tagged_descriptor(int socket, int fd, uint64_t tag);
// kMalformed when the next message is anything else; otherwise as receive_frame.
Result<std::pair<UniqueFd, uint64_t>> receive_tagged_descriptor(int socket, int timeout_ms);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_
