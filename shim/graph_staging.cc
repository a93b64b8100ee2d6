// The blocks behind a graph's ordinary host memory.
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

CUresult GraphStaging::prepare(Session& session, Context* context, const graph::Plan& plan,
                               std::span<const uint32_t> steps) {
  const PlaceScope scope{context, context};
  auto area = std::make_shared<Area>();
  for (const uint32_t number : steps) {
    const graph::Payload* work = plan.steps[number].work();
    const auto* copy = work == nullptr ? nullptr : std::get_if<graph::CopyPayload>(work);
    if (copy == nullptr) continue;
    prepared_[number].area = area;
    RectCopy rect;
    CUresult r = to_rect(&copy->params, pitch_max(session, *context), &rect);
    for (const RectSide* side : {&rect.to, &rect.from}) {
      Place place;
      if (r == CUDA_SUCCESS) r = locate(session, scope, rect, *side, &place);
      if (r != CUDA_SUCCESS) return r;
      if (place.kind != Place::kHost) continue;
      area->ranges.push_back({side->address, side->address + rect.span(*side)});
    }
  }
  if (area->ranges.empty()) return CUDA_SUCCESS;
  if (const CUresult r = graph::backend().check_host(); r != CUDA_SUCCESS) return r;
  const CUresult r = make_host_block(session, context, merge(&area->ranges), &area->block);
  return r != CUDA_SUCCESS || area->block.in_place ? r : CUDA_ERROR_NOT_SUPPORTED;
}

// Ranges in order and apart, each with its place; the bytes of all.
uint64_t GraphStaging::merge(std::vector<Range>* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> merged;
  for (const Range& range : *ranges) {
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
  *ranges = std::move(merged);
  return place;
}

// 0 for what was no ordinary memory when the block was made.
uint64_t GraphStaging::Area::moved(uint64_t address) const {
  auto range = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](uint64_t at, const Range& each) { return at < each.begin; });
  if (range == ranges.begin() || address >= (--range)->end) return 0;
  return block.address + range->place + (address - range->begin);
}

StagedCopy* GraphStaging::redirect(uint32_t step, const RectCopy& rect, const RectSide& side,
                                   Place* place) {
  if (place->kind != Place::kHost) return nullptr;
  Staged& staged = prepared_.at(step);
  place->kind = Place::kInPlace;
  place->end.kind = RectEnd::kHost;
  place->end.memory = staged.area->moved(place->end.memory);
  staged.copies.push_back({side, staged.area->moved(side.address), rect.width, rect.height,
                           rect.depth, &side == &rect.from});
  return &staged.copies.back();
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

void GraphStaging::keep(Session& session, Context* context) {
  Steps replaced;
  for (auto& [step, staged] : prepared_) {
    std::swap(steps_[step], staged);
    replaced[step] = std::move(staged);
  }
  prepared_.clear();
  give_back(session, context, &replaced);
}

void GraphStaging::drop(Session& session, Context* context) {
  give_back(session, context, &prepared_);
}

void GraphStaging::release(Session& session, Context* context) {
  drop(session, context);
  give_back(session, context, &steps_);
}

// The last step that uses a block takes it along.
void GraphStaging::give_back(Session& session, Context* context, Steps* gone) {
  for (auto& [step, staged] : *gone) {
    const std::shared_ptr<Area> area = std::move(staged.area);
    if (area == nullptr || area.use_count() != 1 || area->block.address == 0) continue;
    HostBlock block;
    if (session.host_memory().remove(area->block.address, HostKind::kAllocated, &block))
      (void)end_host_block(session, context, block);
  }
  gone->clear();
}

}  // namespace vgpu::shim
