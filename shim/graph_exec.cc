// Sending graphs, and launching them.
// SPDX-License-Identifier: Apache-2.0
#include "shim/graph_exec.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "op.h"
#include "protocol/wire/graph_nodes.h"
#include "shim/graph_commands.h"
#include "shim/graph_source.h"
#include "shim/share.h"
#include "shim/staging.h"

namespace vgpu::shim {

// A launch is one small record, whatever the graph.
static_assert(sizeof(protocol::RecordHeader) + sizeof(wire::GraphLaunchArgs) <= 128);

GraphExec::~GraphExec() {
  // What was launched still calls them; and of the graph there is only one at a time.
  if (!functions_.empty() || plan_.has_conditionals()) wait();
  for (const GraphFunction& function : functions_) session_->host_calls().remove(function.name);
  for (const uint64_t id : replaced_) session_->host_calls().remove(id);
  if (session_->state() != CUDA_SUCCESS) return;
  const bool there = alive();
  if (there && known_) {
    wire::GraphDestroyArgs args;
    args.graph = id_;
    (void)session_->post(context_, Op::kGraphDestroy, args);
  }
  staging_.release(*session_, there ? context_ : nullptr);  // waits for the launches that use it
}

bool GraphExec::alive() const {
  return session_->state() == CUDA_SUCCESS && context_->unique_id == life_ &&
         context_->active.load(std::memory_order_acquire);
}

CUresult GraphExec::encode(uint32_t number, bool edges, std::vector<std::byte>* out, Names* names) {
  protocol::GraphNodeHeader header;
  header.number = number;
  std::vector<std::byte> command;
  const CUresult r = graph_command(*session_, context_, plan_, number, staging_, node_priority_,
                                   &header, &command, names);
  if (r != CUDA_SUCCESS) return r;
  std::span<const uint32_t> before;
  if (edges) before = plan_.steps[number].before;
  protocol::append_graph_node(out, header, before, command);
  return CUDA_SUCCESS;
}

CUresult GraphExec::send(const std::vector<uint32_t>& steps, bool edges, uint64_t* upload) {
  std::vector<std::byte> bytes;
  Names names;
  CUresult r = CUDA_SUCCESS;
  for (size_t i = 0; i < steps.size() && r == CUDA_SUCCESS; ++i)
    r = encode(steps[i], edges, &bytes, &names);
  *upload = session_->next_upload.fetch_add(1, std::memory_order_relaxed);
  if (r == CUDA_SUCCESS && !bytes.empty())
    r = stage_image(*session_, context_, *upload, bytes.data(), bytes.size());
  if (r == CUDA_SUCCESS) {
    take_names(steps, names);
  } else {
    for (const GraphFunction& each : names) session_->host_calls().remove(each.name);
  }
  return r;
}

// Names that were replaced go once the launches are past that may call them.
void GraphExec::take_names(std::vector<uint32_t> steps, const Names& names) {
  constexpr size_t kReplacedMax = 256;
  if (replaced_.size() >= kReplacedMax) {
    wait();
    forget_replaced();
  }
  std::sort(steps.begin(), steps.end());
  std::erase_if(functions_, [&](const GraphFunction& each) {
    const bool again = std::binary_search(steps.begin(), steps.end(), each.step);
    if (again) replaced_.push_back(each.name);
    return again;
  });
  functions_.insert(functions_.end(), names.begin(), names.end());
}

void GraphExec::forget_replaced() {
  for (const uint64_t id : replaced_) session_->host_calls().remove(id);
  replaced_.clear();
}

void GraphExec::find_events() {
  recorded_.clear();
  awaited_.clear();
  for (const graph::Step& step : plan_.steps) {
    const auto* payload =
        step.node == nullptr ? nullptr : std::get_if<graph::EventPayload>(&step.node->payload);
    if (payload == nullptr) continue;
    const bool records = step.node->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    (records ? recorded_ : awaited_).push_back(id_of(payload->event));
  }
}

CUresult GraphExec::instantiate(uint64_t flags) {
  if (plan_.steps.size() > protocol::kGraphNodesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  std::vector<uint32_t> steps(plan_.steps.size());
  std::iota(steps.begin(), steps.end(), 0);
  CUresult r = staging_.prepare(*session_, context_, plan_, steps);
  if (r != CUDA_SUCCESS) return r;  // the destructor gives back what there is
  wire::GraphInstantiateArgs args;
  args.graph = id_;
  args.nodes = static_cast<uint32_t>(steps.size());
  args.source = source_of(plan_);
  args.flags = static_cast<uint32_t>(flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
  if (r = send(steps, true, &args.upload); r != CUDA_SUCCESS) return r;
  r = session_->call(context_, Op::kGraphInstantiate, args);
  known_ = r == CUDA_SUCCESS;
  if (known_) staging_.keep(*session_, context_);
  find_events();
  return r;
}

CUresult GraphExec::launch(CUstream handle) {
  Session* session;
  Context* current;
  if (CUresult r = enter(&session, &current); r != CUDA_SUCCESS) return r;
  StreamRef stream;
  if (CUresult r = find_any_stream(*session, handle, &stream, &current); r != CUDA_SUCCESS)
    return r;
  if (!alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;  // what the graph was made of is gone
  if (current != context_) return CUDA_ERROR_NOT_SUPPORTED;
  wire::GraphLaunchArgs args;
  args.graph = id_;
  args.stream = stream.id;
  if (has_shared_events()) [[unlikely]] {
    return launch_with_shared(*session, context_, args, stream,
                              [&](uint64_t number) { note_launch(stream, number); });
  }
  session->pace(stream);
  std::lock_guard lock(session->channel().lock());
  const uint64_t number =
      session->post_locked(context_, Op::kGraphLaunch, args, {}, protocol::kNoReply, &stream);
  if (number == 0) return session->lost();
  note_launch(stream, number);
  return CUDA_SUCCESS;
}

bool GraphExec::has_shared_events() const {
  const auto shared = [this](uint64_t id) {
    const Event* event = session_->events.find(id);
    return event != nullptr && event->shared.load(std::memory_order_relaxed);
  };
  return std::any_of(recorded_.begin(), recorded_.end(), shared) ||
         std::any_of(awaited_.begin(), awaited_.end(), shared);
}

// Under the channel's lock. No stream: the work before the events is the graph's, not what stands
// before it in one stream.
void GraphExec::note_launch(const StreamRef& stream, uint64_t number) {
  for (const uint64_t id : recorded_) {
    if (Event* event = session_->events.find(id)) event->set_recorded(0, number);
  }
  last_stream_ = stream;
  last_launch_ = number;
}

// Only what changes is looked up: what other nodes name may be gone by now.
CUresult GraphExec::update(const std::vector<uint32_t>& steps) {
  if (!alive()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (plan_.has_conditionals()) wait();  // the worker may have to make it again: see ~GraphExec
  const bool copies = std::any_of(steps.begin(), steps.end(), [&](uint32_t step) {
    return plan_.steps[step].node->type == CU_GRAPH_NODE_TYPE_MEMCPY;
  });
  if (copies) wait();  // what is under way uses the blocks as they are
  wire::GraphUpdateArgs args;
  args.graph = id_;
  args.source = source_of(plan_);
  args.nodes = static_cast<uint32_t>(steps.size());
  CUresult r = staging_.prepare(*session_, context_, plan_, steps);
  if (r == CUDA_SUCCESS) r = send(steps, false, &args.upload);
  if (r != CUDA_SUCCESS) {
    staging_.drop(*session_, context_);
    return r;
  }
  find_events();
  if (session_->post(context_, Op::kGraphUpdate, args) == 0) return session_->lost();
  staging_.keep(*session_, context_);
  if (copies) forget_replaced();
  return CUDA_SUCCESS;
}

void GraphExec::wait() {
  if (last_launch_ == 0 || !alive() ||
      last_launch_ <= context_->progress.completed.load(std::memory_order_relaxed)) {
    return;
  }
  if (session_->still_there(last_stream_.id)) {
    (void)synchronize_stream(*session_, context_, last_stream_);
  } else {
    wire::ContextSynchronizeArgs args;
    args.context = context_->id;
    (void)session_->call(context_, Op::kContextSynchronize, args);
  }
  last_launch_ = 0;
}

}  // namespace vgpu::shim
