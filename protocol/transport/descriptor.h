// Descriptors with numbers, as one message each: how memory of cuMemHostAlloc reaches the worker,
// and how a channel's memory does that the guest's side brings. SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_
#define VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_

#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"
#include "base/unique_fd.h"
#include "protocol/ring/bell.h"

namespace vgpu::protocol {

// The message is 16 bytes: kDescriptorMagic, tag; and exactly one descriptor.
inline constexpr uint64_t kDescriptorMagic = 0x6466'5550'4776'0001;

Status send_tagged_descriptor(int socket, int fd, uint64_t tag);
// kMalformed when the next message is anything else; otherwise as receive_frame.
Result<std::pair<UniqueFd, uint64_t>> receive_tagged_descriptor(int socket, int timeout_ms);

// A piece of a region for a channel, which follows a Hello that says so (kHelloRegion).
struct RegionOffer {
  UniqueFd region;  // a memfd, sealed against shrinking
  UniqueFd event;   // eventfd, of kRung: the guest's interrupt
  BellKind bell = BellKind::kPolled;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
Status send_region_offer(int socket, const RegionOffer& offer);
// kMalformed when the next message is anything else; otherwise as receive_frame.
Result<RegionOffer> receive_region_offer(int socket, int timeout_ms);

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_TRANSPORT_DESCRIPTOR_H_
