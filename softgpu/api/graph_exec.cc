// Launching graphs on the software GPU.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/graph_exec.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "softgpu/api/driver.h"

namespace vgpu::softgpu {

struct GraphExec::Flight {
  std::shared_ptr<const Layout> layout;
  std::shared_ptr<const Works> works;
  int priority = 0;
  std::shared_ptr<EventPoint> end = std::make_shared<EventPoint>();
  // Of event nodes, by step: what a record stands for, and what a wait waits for.
  std::unordered_map<uint32_t, std::shared_ptr<EventPoint>> records, waits;
};

GraphExec::GraphExec(Context* context, const graph::Plan& plan, bool node_priority)
    : context_(context), plan_(plan), node_priority_(node_priority) {}

GraphExec::~GraphExec() {
  if (layout_ == nullptr) return;
  for (const auto& queue : layout_->queues) context_->device().management().close_queue(queue);
}

CUresult GraphExec::prepare() {
  works_ = std::make_shared<Works>(plan_.steps.size());
  for (size_t i = 0; i < plan_.steps.size(); ++i) {
    const CUresult r = make_work(*context_, plan_.steps[i], node_priority_, &(*works_)[i]);
    if (r != CUDA_SUCCESS) return r;
  }
  spread();
  return CUDA_SUCCESS;
}

// A step goes behind one that it depends on if that is the last of its queue; else into a queue of
// its own, as long as there may be more.
void GraphExec::spread() {
  layout_ = std::make_shared<Layout>();
  Layout& layout = *layout_;
  layout.context = context_;
  layout.channel = context_->channel();
  layout.places.resize(plan_.steps.size());
  std::vector<uint32_t>& ends = layout.ends;
  for (uint32_t i = 0; i < plan_.steps.size(); ++i) {
    const std::vector<uint32_t>& before = plan_.steps[i].before;
    Layout::Place& place = layout.places[i];
    const auto behind = std::find_if(before.begin(), before.end(), [&](uint32_t step) {
      return ends[layout.places[step].queue] == step;
    });
    if (behind != before.end()) {
      place.queue = layout.places[*behind].queue;
    } else if (ends.size() < kGraphQueuesMax) {
      place.queue = static_cast<uint32_t>(ends.size());
      ends.push_back(i);
    } else {
      place.queue = i % kGraphQueuesMax;
    }
    ends[place.queue] = i;
    for (const uint32_t step : before) {
      if (layout.places[step].queue == place.queue) continue;
      place.waits.push_back(step);
      layout.places[step].awaited = true;
    }
  }
  for (const uint32_t end : ends) layout.places[end].awaited = true;
  GridManagement& management = context_->device().management();
  const size_t queues = std::max<size_t>(ends.size(), 1);
  for (size_t i = 0; i < queues; ++i) {
    layout.queues.push_back(
        management.open_queue(layout.channel.get(), false, false, kPriorityLeast));
    layout.queues.back()->unbounded = true;
  }
}

void GraphExec::take_apart(const Flight& flight) {
  const Layout& layout = *flight.layout;
  std::vector<std::shared_ptr<EventPoint>> points(layout.places.size());
  const auto find = [](const auto& map, uint32_t step) {
    const auto found = map.find(step);
    return found == map.end() ? nullptr : found->second;
  };
  Submission common;
  common.context = layout.context;
  common.channel = &layout.channel;
  common.priority = flight.priority;
  for (uint32_t i = 0; i < layout.places.size(); ++i) {
    const Layout::Place& place = layout.places[i];
    Submission to = common;
    to.queue = &layout.queues[place.queue];
    for (const uint32_t step : place.waits) to.waits.push_back(points[step]);
    if (auto awaited = find(flight.waits, i)) to.waits.push_back(std::move(awaited));
    points[i] = find(flight.records, i);
    if (points[i] == nullptr && place.awaited) points[i] = std::make_shared<EventPoint>();
    to.record = points[i];
    const GraphWork& work = *(*flight.works)[i];
    if (work.submit) {
      work.submit(std::move(to));
    } else {
      submit_marker(std::move(to));
    }
  }
  Submission to = common;
  to.queue = &layout.queues[0];
  for (const uint32_t step : layout.ends) to.waits.push_back(points[step]);
  to.record = flight.end;
  submit_marker(std::move(to));
}

CUresult GraphExec::launch(CUstream handle) {
  Context* current = nullptr;
  if (const CUresult r = enter(&current); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<Stream> stream = find_stream(*current, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!context_->alive() || context_->channel() != layout_->channel)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;  // what the graph was made of is gone
  if (const CUresult sticky = context_->sticky(); sticky != CUDA_SUCCESS) return sticky;
  auto flight = std::make_shared<Flight>();
  flight->layout = layout_;
  flight->works = works_;
  flight->priority = stream->priority;
  for (uint32_t i = 0; i < works_->size(); ++i) {
    const GraphWork& work = *(*works_)[i];
    if (work.awaited != nullptr) flight->waits[i] = work.awaited->latest();
    if (work.recorded == nullptr) continue;
    auto point = std::make_shared<EventPoint>();
    flight->records[i] = point;
    std::lock_guard<std::mutex> lock(work.recorded->mutex);
    work.recorded->point = std::move(point);
    work.recorded->stream_id = work.recorded->ordinal = 0;
  }
  auto begin = std::make_unique<Command>();
  begin->kind = CommandKind::kGraph;
  begin->always = true;  // others wait for the graph's end
  begin->work = [flight] { take_apart(*flight); };
  if (last_ != nullptr) begin->waits.push_back(last_);
  auto end = std::make_unique<Command>();
  end->waits.push_back(flight->end);
  last_ = flight->end;
  context_->device().management().submit(stream->queue, std::move(begin), std::move(end));
  return CUDA_SUCCESS;
}

// Launches in flight keep what they have.
CUresult GraphExec::update(const std::vector<uint32_t>& steps) {
  auto fresh = std::make_shared<Works>(*works_);
  for (const uint32_t step : steps) {
    const CUresult r = make_work(*context_, plan_.steps[step], node_priority_, &(*fresh)[step]);
    if (r != CUDA_SUCCESS) return r;
  }
  works_ = std::move(fresh);
  return CUDA_SUCCESS;
}

void GraphExec::wait() {
  if (last_ != nullptr) context_->device().management().wait_for(*last_);
}

}  // namespace vgpu::softgpu
