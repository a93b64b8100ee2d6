// Work that becomes nodes, and calls that do not go together with capture.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/graph/capture_state.h"
#include "api/graph/conditional.h"
#include "api/graph/exec.h"
#include "api/graph/memory.h"

namespace vgpu::graph {

Captures& Captures::instance() {
  static Captures* const captures = new Captures();
  return *captures;
}

void Captures::end(const std::shared_ptr<Capture>& capture, bool keep_graph) {
  std::erase_if(streams, [&](const auto& each) { return each.second.capture == capture; });
  std::erase(running, capture);
  --capture->graph->captures;
  if (capture->own_graph && !keep_graph) Model::instance().graphs.remove(capture->graph->id);
  count();
}

uint64_t this_thread() {
  static std::atomic<uint64_t> next{1};
  static thread_local uint64_t mine = 0;
  if (mine == 0) mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

CUstreamCaptureMode& thread_mode() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

std::vector<Node*> nodes_of(const std::vector<uint64_t>& ids) {
  std::vector<Node*> nodes;
  for (const uint64_t id : ids) {
    if (Node* const* node = Model::instance().nodes.find(id)) nodes.push_back(*node);
  }
  return nodes;
}

CUresult check_legacy(const StreamKey& stream, bool invalidate) {
  if (!stream.legacy) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  for (auto& [id, other] : Captures::instance().streams) {
    if (!other.key.blocking || other.key.context != stream.context) continue;
    if (invalidate) other.capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

namespace {

std::vector<Edge> edges_to(const std::vector<uint64_t>& tips) {
  std::vector<Edge> edges;
  for (Node* node : nodes_of(tips)) edges.push_back({node, {}});
  return edges;
}

// What is to be done with work for `stream`: nothing special, or to capture it into *found.
std::optional<CUresult> look_up(const StreamKey& stream, CapturedStream** found) {
  *found = Captures::instance().find(stream);
  if (*found == nullptr) {
    const CUresult r = check_legacy(stream, true);
    return r == CUDA_SUCCESS ? std::nullopt : std::optional<CUresult>(r);
  }
  if ((*found)->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return std::nullopt;
}

CUresult append(CapturedStream* stream, CUgraphNodeType type, Payload payload) {
  Graph& graph = *stream->capture->graph;
  if (const CUresult r = claim_free(&graph, payload); r != CUDA_SUCCESS) return r;
  Node* node = add_node(graph, type, std::move(payload), edges_to(stream->tips));
  if (node == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->tips = {node->id};
  return CUDA_SUCCESS;
}

// `check` looks at the payload before it becomes a node; an error leaves the capture as it was.
template <typename P, typename Check>
std::optional<CUresult> capture(const StreamKey& stream, CUgraphNodeType type, P payload,
                                Check check) {
  std::lock_guard lock(Model::instance().mutex);
  CapturedStream* found = nullptr;
  if (const auto r = look_up(stream, &found); r.has_value() || found == nullptr) return r;
  if (const CUresult r = check(&payload); r != CUDA_SUCCESS) return r;
  return append(found, type, std::move(payload));
}

void add_tips(std::vector<uint64_t>* tips, const std::vector<uint64_t>& more) {
  for (const uint64_t id : more) {
    if (std::find(tips->begin(), tips->end(), id) == tips->end()) tips->push_back(id);
  }
}

}  // namespace

std::optional<CUresult> capture_kernel(const StreamKey& stream,
                                       const CUDA_KERNEL_NODE_PARAMS_v2& params,
                                       const CUlaunchAttribute* attributes, unsigned count) {
  KernelPayload payload;
  payload.params = params;
  return capture(stream, CU_GRAPH_NODE_TYPE_KERNEL, std::move(payload), [&](KernelPayload* p) {
    CUlaunchAttributeValue priority = {};
    priority.priority = stream.priority;
    (void)p->attributes.set(CU_LAUNCH_ATTRIBUTE_PRIORITY, priority);
    for (unsigned i = 0; i < count; ++i) {  // what changes nothing for the result may be missing
      const CUresult r = p->attributes.set(attributes[i].id, attributes[i].value);
      if (r == CUDA_ERROR_NOT_SUPPORTED) return r;
    }
    return backend().check_kernel(p);
  });
}

std::optional<CUresult> capture_copy(const StreamKey& stream, const CUDA_MEMCPY3D& params) {
  const bool empty = params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0;
  if (empty)
    return capture(stream, CU_GRAPH_NODE_TYPE_EMPTY, EmptyPayload(),
                   [](EmptyPayload*) { return CUDA_SUCCESS; });
  return capture(stream, CU_GRAPH_NODE_TYPE_MEMCPY, CopyPayload{params, stream.context},
                 [](CopyPayload* p) { return backend().check_copy(*p); });
}

std::optional<CUresult> capture_fill(const StreamKey& stream,
                                     const CUDA_MEMSET_NODE_PARAMS_v2& params) {
  if (params.width == 0 || params.height == 0) {
    return capture(stream, CU_GRAPH_NODE_TYPE_EMPTY, EmptyPayload(),
                   [](EmptyPayload*) { return CUDA_SUCCESS; });
  }
  FillPayload payload{params};
  payload.params.ctx = stream.context;
  return capture(stream, CU_GRAPH_NODE_TYPE_MEMSET, payload,
                 [](FillPayload* p) { return backend().check_fill(*p); });
}

std::optional<CUresult> capture_host(const StreamKey& stream, CUhostFn function, void* user) {
  return capture(stream, CU_GRAPH_NODE_TYPE_HOST, HostPayload{{function, user}},
                 [](HostPayload*) { return backend().check_host(); });
}

std::optional<CUresult> capture_operations(const StreamKey& stream, unsigned count,
                                           const CUstreamBatchMemOpParams* params, unsigned flags) {
  OperationsPayload payload{stream.context, flags, {params, params + count}};
  return capture(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, std::move(payload),
                 [](OperationsPayload* p) { return backend().check_operations(*p); });
}

std::optional<CUresult> capture_nothing(const StreamKey& stream) {
  std::lock_guard lock(Model::instance().mutex);
  CapturedStream* found = nullptr;
  if (const auto r = look_up(stream, &found); r.has_value() || found == nullptr) return r;
  found->capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

std::optional<CUresult> capture_record(const StreamKey& stream, CUevent event, bool external) {
  if (external) {
    return capture(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD, EventPayload{event},
                   [event](EventPayload*) { return backend().check_event(event); });
  }
  std::lock_guard lock(Model::instance().mutex);
  Captures& captures = Captures::instance();
  CapturedStream* found = nullptr;
  if (const auto r = look_up(stream, &found); r.has_value()) return r;
  if (found == nullptr) {
    captures.events.erase(event);
  } else {
    captures.events[event] = {found->capture, found->tips, stream.context};
  }
  captures.count();
  return found == nullptr ? std::nullopt : std::optional<CUresult>(CUDA_SUCCESS);
}

// A wait for an event of a capture draws the stream into it.
std::optional<CUresult> capture_wait(const StreamKey& stream, CUevent event, bool external) {
  if (external) {
    return capture(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT, EventPayload{event},
                   [event](EventPayload*) { return backend().check_event(event); });
  }
  std::lock_guard lock(Model::instance().mutex);
  Captures& captures = Captures::instance();
  const auto recorded = captures.events.find(event);
  CapturedStream* found = nullptr;
  if (const auto r = look_up(stream, &found); r.has_value()) return r;
  if (recorded == captures.events.end()) {
    if (found == nullptr) return std::nullopt;
    found->capture->invalid = true;  // an edge from outside
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const std::shared_ptr<Capture> capture = recorded->second.capture.lock();
  if (capture == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (found == nullptr && stream.legacy) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (found != nullptr && found->capture != capture) {
    capture->invalid = found->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (found == nullptr) {
    found = &captures.streams[stream.id];
    found->capture = capture;
    found->key = stream;
  }
  add_tips(&found->tips, recorded->second.tips);
  return CUDA_SUCCESS;
}

std::optional<CUresult> capture_alloc(const StreamKey& stream, size_t bytes, CUdeviceptr* address) {
  return capture(stream, CU_GRAPH_NODE_TYPE_MEM_ALLOC, Payload(), [&](Payload* payload) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    const CUresult r = read_alloc(params, stream.context, payload);
    if (r == CUDA_SUCCESS) *address = std::get<AllocPayload>(*payload).params.dptr;
    return r;
  });
}

std::optional<CUresult> capture_free(const StreamKey& stream, CUdeviceptr address) {
  return capture(stream, CU_GRAPH_NODE_TYPE_MEM_FREE, Payload(),
                 [&](Payload* payload) { return read_free(address, payload); });
}

std::optional<CUresult> capture_graph(const StreamKey& stream, CUgraphExec handle) {
  return capture(stream, CU_GRAPH_NODE_TYPE_GRAPH, ChildPayload(), [&](ChildPayload* child) {
    const std::shared_ptr<Exec> exec = Model::instance().find_exec(handle);
    if (exec == nullptr || exec->graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (exec->has_memory || has_conditionals(*exec->graph)) return CUDA_ERROR_NOT_SUPPORTED;
    child->graph = clone_child(*exec->graph);
    return child->graph == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
  });
}

}  // namespace vgpu::graph
