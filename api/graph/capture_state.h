// The state of captures, for the files of this folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "api/graph/capture.h"
#include "api/graph/model.h"

namespace vgpu::graph {

struct Capture {
  uint64_t id = 0;
  std::shared_ptr<Graph> graph;
  bool own_graph = true;  // false: began with a graph of the program's
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;
  uint64_t origin = 0;  // the stream that it began in
  bool invalid = false;
};

struct CapturedStream {
  std::shared_ptr<Capture> capture;
  StreamKey key;
  std::vector<uint64_t> tips;      // nodes that the next one comes after
  std::vector<CUgraphNode> shown;  // what cuStreamGetCaptureInfo has given out
  std::vector<CUgraphEdgeData> shown_edges;
};

struct CapturedEvent {
  std::weak_ptr<Capture> capture;  // gone: it was recorded in a capture that is over
  std::vector<uint64_t> tips;
  CUcontext context = nullptr;
};

// Under the model's lock.
struct Captures {
  static Captures& instance();

  std::unordered_map<uint64_t, CapturedStream> streams;
  std::unordered_map<CUevent, CapturedEvent> events;
  std::vector<std::shared_ptr<Capture>> running;

  CapturedStream* find(const StreamKey& stream) {
    const auto found = streams.find(stream.id);
    return found == streams.end() ? nullptr : &found->second;
  }
  void count() {
    captures_running.store(static_cast<uint32_t>(running.size()), std::memory_order_relaxed);
    events_captured.store(static_cast<uint32_t>(events.size()), std::memory_order_relaxed);
  }
  // It is over. A graph of its own goes with it, unless it is kept.
  void end(const std::shared_ptr<Capture>& capture, bool keep_graph);
};

// A number of the calling thread, and its mode.
uint64_t this_thread();
CUstreamCaptureMode& thread_mode();

// The nodes behind ids; those that were destroyed are left out.
std::vector<Node*> nodes_of(const std::vector<uint64_t>& ids);

// IMPLICIT when the legacy stream's work would come between that of captured streams.
CUresult check_legacy(const StreamKey& stream, bool invalidate);

}  // namespace vgpu::graph
