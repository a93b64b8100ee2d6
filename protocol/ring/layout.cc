// Checks on the shared memory's sizes and identity.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/layout.h"

#include <algorithm>
#include <bit>

namespace vgpu::protocol {
namespace {

bool slab_size_ok(uint64_t bytes) {
  return bytes >= kSlabBytesMin && bytes <= kSlabBytesMax && bytes % kPageBytes == 0;
}

}  // namespace

Status ChannelSizes::check() const {
  if (!std::has_single_bit(ring_bytes) || ring_bytes < kRingBytesMin ||
      ring_bytes > kRingBytesMax) {
    return Status(StatusCode::kMalformed, "ring size is not a power of two within the limits");
  }
  if (!slab_size_ok(up_bytes) || !slab_size_ok(down_bytes)) {
    return Status(StatusCode::kMalformed, "slab size is not whole pages within the limits");
  }
  return ok_status();
}

ChannelSizes ChannelSizes::fitting(uint64_t bytes) {
  ChannelSizes sizes;
  const uint64_t room = bytes > kRingOffset ? bytes - kRingOffset : 0;
  while (sizes.ring_bytes > kRingBytesMin && sizes.ring_bytes > room / 4) sizes.ring_bytes /= 2;
  const uint64_t slabs = room > sizes.ring_bytes ? room - sizes.ring_bytes : 0;
  sizes.up_bytes = std::min(kSlabBytesDefault, slabs / 2 / kPageBytes * kPageBytes);
  sizes.down_bytes = sizes.up_bytes;
  return sizes;
}

void ChannelView::write_identity() const {
  IdentityLine& identity = header()->identity;
  identity.magic = kChannelMagic;
  identity.version = kProtocolVersion;
  identity.ring_bytes = sizes_.ring_bytes;
  identity.up_bytes = sizes_.up_bytes;
  identity.down_bytes = sizes_.down_bytes;
}

Status ChannelView::check_identity() const {
  const IdentityLine identity = header()->identity;  // read once
  if (identity.magic != kChannelMagic) {
    return Status(StatusCode::kMalformed, "shared memory is not a channel");
  }
  if (identity.version != kProtocolVersion) {
    return Status(StatusCode::kMismatch, "channel has layout version " +
                                             std::to_string(identity.version) + ", this side " +
                                             std::to_string(kProtocolVersion));
  }
  if (identity.ring_bytes != sizes_.ring_bytes || identity.up_bytes != sizes_.up_bytes ||
      identity.down_bytes != sizes_.down_bytes) {
    return Status(StatusCode::kMalformed, "channel has other sizes than the handshake said");
  }
  return ok_status();
}

}  // namespace vgpu::protocol
