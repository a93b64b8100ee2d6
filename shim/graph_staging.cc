// The block behind a graph's ordinary host memory.
// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_staging.h"

#include <algorithm>
#include <cstring>

#include "shim/host_block.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kRangeStep = 64;  // ranges begin at lines, as the copies like it

}  // namespace

CUresult GraphStaging::prepare(Session& session, Context* context, const graph::Plan& plan) {
  ranges_.clear();
  in_.clear();
  out_.clear();
  const PlaceScope scope{context, context};
  for (const graph::Step& step : plan.steps) {
    const graph::Payload* work = step.work();
    const auto* copy = work == nullptr ? nullptr : std::get_if<graph::CopyPayload>(work);
    if (copy == nullptr) continue;
    RectCopy rect;
    CUresult r = to_rect(&copy->params, pitch_max(session, *context), &rect);
    for (const RectSide* side : {&rect.to, &rect.from}) {
      Place place;
      if (r == CUDA_SUCCESS) r = locate(session, scope, rect, *side, &place);
      if (r != CUDA_SUCCESS) return r;
      if (place.kind != Place::kHost) continue;
      ranges_.push_back({side->address, side->address + rect.span(*side)});
      (side == &rect.to ? out_ : in_).push_back({*side, rect.width, rect.height, rect.depth});
    }
  }
  if (ranges_.empty()) return CUDA_SUCCESS;
  merge();
  const Range& last = ranges_.back();
  const uint64_t bytes = last.place + (last.end - last.begin);
  if (block_.address != 0 && block_.bytes >= bytes) return CUDA_SUCCESS;
  release(session, context);
  const CUresult r = make_host_block(session, context, bytes, &block_);
  if (r != CUDA_SUCCESS || block_.in_place) return r;
  release(session, context);
  return CUDA_ERROR_NOT_SUPPORTED;
}

void GraphStaging::merge() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  uint64_t place = 0;
  for (Range& range : merged) {
    range.place = place;
    place += (range.end - range.begin + kRangeStep - 1) / kRangeStep * kRangeStep;
  }
  ranges_ = std::move(merged);
}

// 0 for what was no ordinary memory when the block was made.
uint64_t GraphStaging::moved(uint64_t address) const {
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](uint64_t at, const Range& each) { return at < each.begin; });
  if (range == ranges_.begin() || address >= (--range)->end) return 0;
  return block_.address + range->place + (address - range->begin);
}

void GraphStaging::redirect(Place* place) const {
  if (place->kind != Place::kHost) return;
  place->kind = Place::kInPlace;
  place->end.kind = RectEnd::kHost;
  place->end.memory = moved(place->end.memory);
}

void GraphStaging::move(const std::vector<Box>& boxes, bool to_block) const {
  for (const Box& box : boxes) {
    const uint64_t block = moved(box.side.address);
    for (uint64_t z = 0; z < box.depth; ++z) {
      for (uint64_t y = 0; y < box.height; ++y) {
        const uint64_t offset = z * box.side.slice + y * box.side.pitch;
        auto* const ours = reinterpret_cast<void*>(block + offset);
        auto* const theirs = reinterpret_cast<void*>(box.side.address + offset);
        std::memcpy(to_block ? ours : theirs, to_block ? theirs : ours, box.width);
      }
    }
  }
}

void GraphStaging::release(Session& session, Context* context) {
  HostBlock block;
  if (block_.address != 0 &&
      session.host_memory().remove(block_.address, HostKind::kAllocated, &block)) {
    (void)end_host_block(session, context, block);
  }
  block_ = {};
}

}  // namespace vgpu::shim
