// Beginning, ending and looking at captures.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>

#include "api/graph/capture_state.h"
#include "api/graph/exec.h"
#include "api/graph/node_params.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Capture;
using graph::CapturedStream;
using graph::Captures;
using graph::Edge;
using graph::Graph;
using graph::Model;
using graph::Node;
using graph::StreamKey;

namespace {

CUresult look_up(CUstream handle, StreamKey* key) {
  CUcontext current = nullptr;
  if (const CUresult r = graph::backend().enter(&current); r != CUDA_SUCCESS) return r;
  return graph::backend().find_stream(handle, key);
}

// `graph`: null for a fresh one.
CUresult begin(const StreamKey& key, std::shared_ptr<Graph> graph, CUstreamCaptureMode mode,
               const std::vector<Edge>& before) {
  static std::atomic<uint64_t> next_id{1};
  Captures& captures = Captures::instance();
  if (key.legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (captures.find(key) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = next_id.fetch_add(1, std::memory_order_relaxed);
  capture->own_graph = graph == nullptr;
  if (graph == nullptr) {
    graph = std::make_shared<Graph>();
    graph->id = Model::instance().graphs.insert(graph);
    if (graph->id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  capture->graph = std::move(graph);
  ++capture->graph->captures;
  capture->mode = mode;
  capture->thread = graph::this_thread();
  capture->origin = key.id;
  CapturedStream& stream = captures.streams[key.id];
  stream.capture = capture;
  stream.key = key;
  for (const Edge& edge : before) stream.tips.push_back(edge.node->id);
  captures.running.push_back(std::move(capture));
  captures.count();
  return CUDA_SUCCESS;
}

// Whether every branch has come back to the stream that the capture began in.
bool joined(const Captures& captures, const CapturedStream& origin) {
  std::vector<Node*> tips;
  for (const auto& [id, stream] : captures.streams) {
    if (stream.capture != origin.capture) continue;
    for (Node* node : graph::nodes_of(stream.tips)) tips.push_back(node);
  }
  return graph::all_reached(graph::nodes_of(origin.tips), tips);
}

CUresult end(const StreamKey& key, CUgraph* out) {
  Captures& captures = Captures::instance();
  *out = nullptr;
  const CapturedStream* found = captures.find(key);
  if (found == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = found->capture;
  if (capture->origin != key.id) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != graph::this_thread())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = CUDA_SUCCESS;
  if (capture->invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (!joined(captures, *found)) {
    result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  captures.end(capture, result == CUDA_SUCCESS);
  if (result == CUDA_SUCCESS) *out = Model::instance().handle_of(*capture->graph);
  return result;
}

struct Info {
  CUstreamCaptureStatus* status;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  size_t* count = nullptr;
};

CUresult tell(CUstream handle, const Info& info) {
  StreamKey key;
  if (const CUresult r = look_up(handle, &key); r != CUDA_SUCCESS) return r;
  if (info.status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *info.status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!graph::watching()) return CUDA_SUCCESS;
  std::lock_guard lock(Model::instance().mutex);
  if (const CUresult r = graph::check_legacy(key, false); r != CUDA_SUCCESS) return r;
  CapturedStream* found = Captures::instance().find(key);
  *info.status = found == nullptr          ? CU_STREAM_CAPTURE_STATUS_NONE
                 : found->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                           : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (*info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  const Model& model = Model::instance();
  if (info.id != nullptr) *info.id = found->capture->id;
  if (info.graph != nullptr) *info.graph = model.handle_of(*found->capture->graph);
  found->shown.clear();
  for (const Node* node : graph::nodes_of(found->tips))
    found->shown.push_back(model.handle_of(*node));
  found->shown_edges.assign(found->shown.size(), CUgraphEdgeData{});
  if (info.nodes != nullptr) *info.nodes = found->shown.data();
  if (info.edges != nullptr) *info.edges = found->shown_edges.data();
  if (info.count != nullptr) *info.count = found->shown.size();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  StreamKey key;
  if (const CUresult r = look_up(stream, &key); r != CUDA_SUCCESS) return r;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  return begin(key, nullptr, mode, {});
}

CUresult cuStreamBeginCapture(CUstream stream) {
  return driver::cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph handle, const CUgraphNode* before,
                                     const CUgraphEdgeData* data, size_t count,
                                     CUstreamCaptureMode mode) {
  StreamKey key;
  if (const CUresult r = look_up(stream, &key); r != CUDA_SUCCESS) return r;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  Graph* graph = model.find_graph(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Edge> edges;
  const CUresult r = graph::read_edges(*graph, before, data, count, &edges);
  return r == CUDA_SUCCESS ? begin(key, graph->shared_from_this(), mode, edges) : r;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* out) {
  StreamKey key;
  if (const CUresult r = look_up(stream, &key); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  return end(key, out);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return tell(stream, {.status = status});
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id) {
  return tell(stream, {.status = status, .id = id});
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes, size_t* count) {
  return tell(stream, {.status = status, .id = id, .graph = graph, .nodes = nodes, .count = count});
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** nodes,
                                   const CUgraphEdgeData** edges, size_t* count) {
  return tell(stream, {status, id, graph, nodes, edges, count});
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes,
                                              const CUgraphEdgeData* data, size_t count,
                                              unsigned int flags) {
  StreamKey key;
  if (const CUresult r = look_up(stream, &key); r != CUDA_SUCCESS) return r;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  CapturedStream* found = Captures::instance().find(key);
  if (found == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (found->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<Edge> edges;
  const CUresult r = graph::read_edges(*found->capture->graph, nodes, data, count, &edges);
  if (r != CUDA_SUCCESS) return r;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) found->tips.clear();
  for (const Edge& edge : edges) {
    const uint64_t id = edge.node->id;
    if (std::find(found->tips.begin(), found->tips.end(), id) == found->tips.end())
      found->tips.push_back(id);
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count,
                                           unsigned int flags) {
  return driver::cuStreamUpdateCaptureDependencies_v2(stream, nodes, nullptr, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, graph::thread_mode());
  return CUDA_SUCCESS;
}

}  // namespace vgpu::driver
