// Launching graphs on the software GPU.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/api/graph_exec.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "softgpu/api/driver.h"
#include "softgpu/api/peer_event.h"

namespace vgpu::softgpu {

struct GraphExec::Flight {
  std::shared_ptr<const Layout> layout;
  std::shared_ptr<const Works> works;
  int priority = 0;
  SmSet sms;
  std::shared_ptr<EventPoint> end = std::make_shared<EventPoint>();
  // Of event nodes, by step: what a record stands for, and what a wait waits for.
  std::unordered_map<uint32_t, std::shared_ptr<EventPoint>> records, waits;
};

GraphExec::GraphExec(Context* context, const graph::Plan& plan, bool node_priority)
    : context_(context), plan_(plan), node_priority_(node_priority) {}

GraphExec::~GraphExec() {
  if (layout_ == nullptr) return;
  for (const Layout::Part& part : layout_->parts) {
    for (const auto& queue : part.queues) context_->device().management().close_queue(queue);
  }
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

void GraphExec::spread() {
  layout_ = std::make_shared<Layout>();
  Layout& layout = *layout_;
  layout.context = context_;
  layout.channel = context_->channel();
  layout.places.resize(plan_.steps.size());
  layout.parts.resize(plan_.regions.size());
  for (const graph::Step& step : plan_.steps) layout.bodies.push_back(step.bodies);
  for (size_t i = 0; i < plan_.regions.size(); ++i) spread(plan_.regions[i], &layout.parts[i]);
}

// A step goes behind one that it depends on if that is the last of its queue; else into a queue of
// its own, as long as there may be more.
void GraphExec::spread(const graph::Region& region, Layout::Part* part) {
  Layout& layout = *layout_;
  part->steps = region;
  std::vector<uint32_t>& ends = part->ends;
  for (uint32_t i = region.first; i < region.end; ++i) {
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
    part->queues.push_back(
        management.open_queue(layout.channel.get(), false, false, kPriorityLeast));
    part->queues.back()->unbounded = true;
  }
}

void GraphExec::take_apart(const FlightRef& flight, uint32_t number,
                           const std::function<void(Submission)>& end) {
  const Layout& layout = *flight->layout;
  const Layout::Part& part = layout.parts[number];
  const uint32_t first = part.steps.first;
  std::vector<std::shared_ptr<EventPoint>> points(part.steps.end - first);
  const auto find = [](const auto& map, uint32_t step) {
    const auto found = map.find(step);
    return found == map.end() ? nullptr : found->second;
  };
  Submission common;
  common.context = layout.context;
  common.channel = &layout.channel;
  common.priority = flight->priority;
  common.sms = flight->sms;
  for (uint32_t i = first; i < part.steps.end; ++i) {
    const Layout::Place& place = layout.places[i];
    Submission to = common;
    to.queue = &part.queues[place.queue];
    for (const uint32_t step : place.waits) to.waits.push_back(points[step - first]);
    if (auto awaited = find(flight->waits, i)) to.waits.push_back(std::move(awaited));
    std::shared_ptr<EventPoint>& point = points[i - first];
    point = find(flight->records, i);
    if (point == nullptr && place.awaited) point = std::make_shared<EventPoint>();
    to.record = point;
    submit_step(flight, i, std::move(to));
  }
  Submission to = common;
  to.queue = &part.queues[0];
  for (const uint32_t step : part.ends) to.waits.push_back(points[step - first]);
  end(std::move(to));
}

void GraphExec::begin_flight(const FlightRef& flight) {
  for (const auto& work : *flight->works) {
    if (work->condition != nullptr && work->conditional->assigns)
      work->condition->value.store(work->conditional->value, std::memory_order_relaxed);
  }
  take_apart(flight, 0, [&](Submission to) {
    to.record = flight->end;
    submit_marker(std::move(to));
  });
}

void GraphExec::submit_step(const FlightRef& flight, uint32_t step, Submission to) {
  const GraphWork& work = *(*flight->works)[step];
  if (work.submit) return work.submit(std::move(to));
  if (work.condition == nullptr) return submit_marker(std::move(to));
  auto done = std::make_shared<EventPoint>();
  Submission behind = to;
  behind.waits = {done};
  to.record = nullptr;
  submit_graph_work(std::move(to), [flight, step, done] { decide(flight, step, done); });
  submit_marker(std::move(behind));
}

// A conditional node's turn, or the end of one pass of its loop: runs the body that the value
// names, or reaches `done`.
void GraphExec::decide(const FlightRef& flight, uint32_t step,
                       const std::shared_ptr<EventPoint>& done) {
  const Layout& layout = *flight->layout;
  const GraphWork& work = *(*flight->works)[step];
  const std::vector<uint32_t>& bodies = layout.bodies[step];
  const uint32_t value = work.condition->value.load(std::memory_order_relaxed);
  const bool loops = work.type == CU_GRAPH_COND_TYPE_WHILE;
  size_t body = value;
  if (work.type != CU_GRAPH_COND_TYPE_SWITCH) body = value != 0 ? 0 : loops ? bodies.size() : 1;
  if (body >= bodies.size() || layout.channel->sticky() != CUDA_SUCCESS)
    return layout.context->device().management().reach(*done);
  take_apart(flight, bodies[body], [&](Submission to) {
    if (loops) {
      submit_graph_work(std::move(to), [flight, step, done] { decide(flight, step, done); });
    } else {
      to.record = done;
      submit_marker(std::move(to));
    }
  });
}

CUresult GraphExec::launch(CUstream handle) {
  Context* current = nullptr;
  if (const CUresult r = enter(&current); r != CUDA_SUCCESS) return r;
  const std::shared_ptr<Stream> stream = find_stream(*current, handle);
  if (stream == nullptr) return green::lost_stream(handle);
  if (!context_->alive() || context_->channel() != layout_->channel)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;  // what the graph was made of is gone
  if (const CUresult sticky = context_->sticky(); sticky != CUDA_SUCCESS) return sticky;
  auto flight = std::make_shared<Flight>();
  flight->layout = layout_;
  flight->works = works_;
  flight->priority = stream->priority;
  flight->sms = stream->queue->sms;
  std::vector<std::pair<std::shared_ptr<Event>, std::shared_ptr<EventPoint>>> announced;
  for (uint32_t i = 0; i < works_->size(); ++i) {
    const GraphWork& work = *(*works_)[i];
    if (work.awaited != nullptr) {
      flight->waits[i] = work.awaited->peer != nullptr ? newest_record(*work.awaited, *context_)
                                                       : work.awaited->latest();
    }
    if (work.recorded == nullptr) continue;
    auto point = std::make_shared<EventPoint>();
    flight->records[i] = point;
    {
      std::lock_guard<std::mutex> lock(work.recorded->mutex);
      work.recorded->point = point;
      work.recorded->stream_id = work.recorded->ordinal = 0;
    }
    if (work.recorded->peer != nullptr) announced.emplace_back(work.recorded, std::move(point));
  }
  auto begin = std::make_unique<Command>();
  begin->kind = CommandKind::kGraph;
  begin->always = true;  // others wait for the graph's end
  begin->work = [flight] { begin_flight(flight); };
  if (last_ != nullptr) begin->waits.push_back(last_);
  auto end = std::make_unique<Command>();
  end->waits.push_back(flight->end);
  last_ = flight->end;
  context_->device().management().submit(stream->queue, std::move(begin), std::move(end));
  for (const auto& [event, point] : announced) announce(*event, *context_, point);
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
