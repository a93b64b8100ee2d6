// Space in the down-slab: pieces that come back in any order.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_PROTOCOL_RING_DOWN_SPACE_H_
#define VGPU_PROTOCOL_RING_DOWN_SPACE_H_

#include <cstdint>
#include <vector>

#include "protocol/ring/staging.h"

namespace vgpu::protocol {

// Belongs to the guest, under a lock of the caller's. A result may wait for as long as its stream
// does, so no piece holds back another's space. First fit from below, so that what comes and goes
// stays in the caches. Allocates nothing after construction.
class DownSpace {
 public:
  explicit DownSpace(uint64_t slab_bytes);

  // `bytes` in one piece, or no room.
  Staging::Piece allocate(uint64_t bytes);
  // Gives a piece back. One that is not out changes nothing.
  void release(const Staging::Piece& piece);

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t bytes_max() const { return slab_bytes_; }

 private:
  struct Range {
    uint64_t offset = 0, end = 0;
  };

  const uint64_t slab_bytes_;
  uint64_t free_bytes_;
  std::vector<Range> out_;  // ascending
};

}  // namespace vgpu::protocol

#endif  // VGPU_PROTOCOL_RING_DOWN_SPACE_H_
