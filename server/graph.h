// Graphs of a guest: checked nodes, and what the driver has made of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_SERVER_GRAPH_H_
#define VGPU_SERVER_GRAPH_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "driver_table.h"
#include "protocol/wire/graph_nodes.h"
#include "server/lane.h"
#include "wire.h"

namespace vgpu::server {

struct Context;
struct Event;
struct HostPoint;
struct Mark;
struct Module;
class Session;

// One node, checked. What it names belonged to the guest at that time.
struct GraphNode {
  uint16_t op = 0;  // 0: nothing to do
  bool has_priority = false;
  std::vector<uint32_t> before;  // earlier nodes
  wire::LaunchArgs launch;
  CUfunction function = nullptr;
  std::weak_ptr<Module> module;  // of the function, as it was: `code`
  const Module* code = nullptr;  // while `module` holds on to it no other one has this address
  std::vector<std::byte> params;
  wire::RectCopyArgs copy;
  CUDA_MEMCPY3D box = {};
  wire::RectFillArgs fill;
  std::shared_ptr<Event> event;
  std::shared_ptr<HostPoint> point;  // of a function of the guest's, or of one before a copy
  std::shared_ptr<HostPoint> after;  // of one after a copy
  std::vector<wire::StreamMemoryArgs> operations;
  protocol::GraphConditionalNode conditional;
  std::vector<uint32_t> body_nodes;  // how many each body has
};

// What has the handles of a guest's conditional nodes: a graph of the driver's, since a handle is
// one graph's and kernels know it as it is. Executable graphs with such nodes are made there, one
// at a time; they keep it.
struct GraphSource {
  GraphSource(const DriverTable* table, Context* owner) : driver(table), context(owner) {}
  GraphSource(const GraphSource&) = delete;
  GraphSource& operator=(const GraphSource&) = delete;
  ~GraphSource();

  const DriverTable* const driver;
  Context* const context;
  CUgraph graph = nullptr;
  std::mutex building;  // helpers make one at a time of it
  // Whether the guest may have one more handle; counts it.
  bool take_place();
  void add(uint64_t handle);
  bool has(uint64_t handle) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_set<uint64_t> handles_;
  size_t places_ = 0;
};

struct GraphSourceEntry {
  std::shared_ptr<GraphSource> source;
};

// The driver's graph. Launches that wait in a lane keep it.
struct NativeGraph {
  NativeGraph(const DriverTable* table, Context* owner) : driver(table), context(owner) {}
  NativeGraph(const NativeGraph&) = delete;
  NativeGraph& operator=(const NativeGraph&) = delete;
  ~NativeGraph();
  // Ends the executable one now: a lane that has launched it may keep this a little longer.
  void end();

  const DriverTable* const driver;
  Context* const context;
  CUgraph graph = nullptr;
  std::shared_ptr<GraphSource> source;  // has the graph, unless null
  CUgraphExec exec = nullptr;
  uint32_t kernels = 0;            // among its nodes, those of conditional bodies once
  std::vector<CUgraphNode> nodes;  // where one of the guest's is several: the last
  std::vector<std::shared_ptr<HostPoint>> points;
};

struct Graph {
  Context* context = nullptr;
  uint32_t flags = 0;
  std::vector<GraphNode> nodes;
  std::vector<uint32_t> region;         // of each node: 0, or which body of a conditional node
  std::shared_ptr<GraphSource> source;  // of its conditional nodes; or null
  std::shared_ptr<NativeGraph> native;
  LanePoint last;            // of the newest launch
  uint64_t last_stream = 0;  // of the newest launch that `after` is not behind; 0: there is none
  std::vector<std::shared_ptr<Mark>>
      after;                       // launches of an earlier `native`: the next comes behind
  std::atomic<bool> ready{false};  // release by the helper, acquire by the consumer
  std::atomic<bool> making{true};  // the same
};

struct GraphEntry {
  std::shared_ptr<Graph> graph;
};

// --- graph_nodes.cc; the consumer

enum class NodesResult : uint8_t { kGood, kStale, kMalformed };
// Reads nodes of an upload into `graph`: all, or with `update` those that change. Conditional nodes
// have handles of `source`. kStale: one names what is not, or no longer, the guest's; then nothing
// has changed. *why: of kMalformed.
NodesResult read_nodes(Session& session, std::span<const std::byte> bytes, uint32_t count,
                       bool update, const GraphSource* source, Graph* graph,
                       std::vector<uint32_t>* changed, const char** why);
// Whether everything that the nodes name is still there.
bool still_whole(Session& session, const Graph& graph);

// --- graph_conditional.cc; the consumer

NodesResult read_conditional(std::span<const std::byte> bytes, const GraphSource* source,
                             GraphNode* node);
// Which body each node is of. False: the bodies are not one behind the other, or nest too deeply.
bool find_regions(const std::vector<GraphNode>& nodes, std::vector<uint32_t>* region);
// The source that a command names, which is 0 for none. False: it names none of the bound context.
bool find_source(Session& session, uint64_t id, std::shared_ptr<GraphSource>* source);

// --- graph_native.cc; any thread, the graph's context is current

// Makes the driver's graph of the nodes.
CUresult build(const DriverTable& driver, const Graph& graph, std::shared_ptr<NativeGraph>* native);
// Changes one node of it. NOT_SUPPORTED when that takes a new graph.
CUresult change(const DriverTable& driver, const Graph& graph, uint32_t number,
                NativeGraph* native);

}  // namespace vgpu::server

#endif  // VGPU_SERVER_GRAPH_H_
