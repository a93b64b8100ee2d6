// The block behind a graph's ordinary host memory.
// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_staging.h"

#include <algorithm>
#include <cstring>

#include "api/graph/backend.h"
#include "shim/host_block.h"

namespace vgpu::shim {
namespace {

constexpr uint64_t kRangeStep = 64;  // ranges begin at lines, as the copies like it

}  // namespace

CUresult GraphStaging::prepare(Session& session, Context* context, const graph::Plan& plan) {
  ranges_.clear();
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
    }
  }
  if (ranges_.empty()) return CUDA_SUCCESS;
  if (const CUresult r = graph::backend().check_host(); r != CUDA_SUCCESS) return r;
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

StagedCopy* GraphStaging::redirect(const RectCopy& rect, const RectSide& side, Place* place) {
  if (place->kind != Place::kHost) return nullptr;
  place->kind = Place::kInPlace;
  place->end.kind = RectEnd::kHost;
  place->end.memory = moved(place->end.memory);
  copies_.push_back(
      {side, moved(side.address), rect.width, rect.height, rect.depth, &side == &rect.from});
  return &copies_.back();
}

void CUDA_CB StagedCopy::run(void* self) {
  const auto& copy = *static_cast<const StagedCopy*>(self);
  for (uint64_t z = 0; z < copy.depth; ++z) {
    for (uint64_t y = 0; y < copy.height; ++y) {
      const uint64_t offset = z * copy.side.slice + y * copy.side.pitch;
      auto* const ours = reinterpret_cast<void*>(copy.block + offset);
      auto* const theirs = reinterpret_cast<void*>(copy.side.address + offset);
      std::memcpy(copy.to_block ? ours : theirs, copy.to_block ? theirs : ours, copy.width);
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
