// The first-fit slab allocator.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/down_space.h"

#include <algorithm>

namespace vgpu::protocol {

DownSpace::DownSpace(uint64_t slab_bytes)
    : slab_bytes_(slab_bytes - slab_bytes % kStagingAlignBytes), free_bytes_(slab_bytes_) {
  out_.reserve(kDownPiecesMax);
}

Staging::Piece DownSpace::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > free_bytes_ || out_.size() == kDownPiecesMax) return {};
  const uint64_t rounded = (bytes + kStagingAlignBytes - 1) & ~uint64_t{kStagingAlignBytes - 1};
  uint64_t offset = 0;
  auto behind = out_.begin();
  while (behind != out_.end() && behind->offset - offset < rounded) offset = (behind++)->end;
  if (slab_bytes_ - offset < rounded) return {};
  out_.insert(behind, {offset, offset + rounded});
  free_bytes_ -= rounded;
  return {offset, offset + 1};
}

void DownSpace::release(const Staging::Piece& piece) {
  const auto found =
      std::lower_bound(out_.begin(), out_.end(), piece.offset,
                       [](const Range& each, uint64_t offset) { return each.offset < offset; });
  if (!piece.ok() || found == out_.end() || found->offset != piece.offset) return;
  free_bytes_ += found->end - found->offset;
  out_.erase(found);
}

}  // namespace vgpu::protocol
