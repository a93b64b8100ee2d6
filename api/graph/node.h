// What a graph consists of: nodes with their own copies of all parameters, and edges.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <variant>
#include <vector>

#include "api/geometry/cluster.h"

namespace vgpu::graph {

struct Graph;
struct Node;

struct KernelParam {
  uint32_t offset = 0, bytes = 0;
};

// The attributes that a kernel node can carry, one value each; an absent one is zero.
class KernelAttributes {
 public:
  // INVALID_VALUE for what is no attribute of kernel nodes.
  CUresult get(CUlaunchAttributeID which, CUlaunchAttributeValue* value) const;
  // The same.
  CUresult set(CUlaunchAttributeID which, const CUlaunchAttributeValue& value);
  bool cooperative() const;
  ClusterSize cluster() const;
  // False: the launching stream's.
  bool priority(int* value) const;

 private:
  std::map<int, CUlaunchAttributeValue> values_;
};

struct KernelPayload {
  CUDA_KERNEL_NODE_PARAMS_v2 params = {};  // kernelParams and extra are not kept
  std::vector<std::byte> packed;
  std::vector<KernelParam> layout;
  KernelAttributes attributes;
  std::vector<void*> pointers;  // into `packed`, for cuGraphKernelNodeGetParams
};

struct CopyPayload {
  CUDA_MEMCPY3D params = {};
  CUcontext context = nullptr;
  bool linear() const { return params.Height <= 1 && params.Depth <= 1; }
};

struct FillPayload {
  CUDA_MEMSET_NODE_PARAMS_v2 params = {};
};

struct HostPayload {
  CUDA_HOST_NODE_PARAMS params = {};
};

struct EventPayload {
  CUevent event = nullptr;
};

struct ChildPayload {
  std::shared_ptr<Graph> graph;
};

// What a back end keeps for the conditional handles of one graph; their life is its own.
struct ConditionalSource {
  virtual ~ConditionalSource() = default;
  bool instantiated = false;  // under the model's lock: an executable graph was made of that graph
};

// A conditional handle. Nodes of the graph, and of executable graphs made from it, share it.
struct Conditional {
  uint64_t handle = 0;  // as kernels know it: the driver's own
  CUcontext context = nullptr;
  unsigned value = 0;    // at the beginning of each launch, if `assigns`
  bool assigns = false;  // else the value is what it was
  std::shared_ptr<ConditionalSource> source;
};

struct ConditionalPayload {
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::shared_ptr<const Conditional> conditional;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::vector<CUgraph> shown;  // their handles, as the program has them
};

struct OperationsPayload {  // writes of values and waits for them
  CUcontext context = nullptr;
  unsigned flags = 0;
  std::vector<CUstreamBatchMemOpParams> operations;
};

struct Memory;
struct AllocPayload {
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  std::shared_ptr<Memory> memory;
};

struct FreePayload {
  CUdeviceptr address = 0;
  std::shared_ptr<Memory> memory;
};

struct EmptyPayload {};

using Payload =
    std::variant<EmptyPayload, KernelPayload, CopyPayload, FillPayload, HostPayload, EventPayload,
                 ChildPayload, OperationsPayload, AllocPayload, FreePayload, ConditionalPayload>;

// Graphs inside of other graphs: so many at most, one in the other.
inline constexpr int kNestingMax = 64;

// Calls `use` with every graph inside of a node.
template <typename P, typename Use>
void each_inner(P& payload, Use use) {
  if (auto* child = std::get_if<ChildPayload>(&payload)) use(child->graph);
  if (auto* conditional = std::get_if<ConditionalPayload>(&payload)) {
    for (auto& body : conditional->bodies) use(body);
  }
}

struct Edge {
  Node* node = nullptr;
  CUgraphEdgeData data = {};
};

struct Node {
  uint64_t id = 0;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Payload payload;
  Graph* graph = nullptr;
  uint64_t original = 0;     // the node that this one was cloned from
  bool enabled = true;       // of an executable graph's nodes only
  std::vector<Edge> before;  // what it depends on, in the order of declaration
  std::vector<Edge> after;   // what depends on it
};

// Owned by its handle, by its parent's node or by an executable graph. All under the model's lock.
struct Graph : std::enable_shared_from_this<Graph> {
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();  // takes the lock; forgets the handles of its nodes, releases its user objects

  uint64_t id = 0;
  uint64_t original = 0;  // the graph that this one was cloned from
  Node* parent = nullptr;
  unsigned captures = 0;                      // that still add to it
  std::vector<std::unique_ptr<Node>> nodes;   // in the order of creation
  std::map<uint64_t, uint64_t> user_objects;  // references held, by handle
  std::set<CUdeviceptr> frees;                // what nodes of it free
  bool instantiated = false;                  // and allocates or frees: once at a time
  // Of a graph that is in no other: conditional handles, for nodes here and further inside.
  std::shared_ptr<ConditionalSource> conditional_source;
  std::vector<std::shared_ptr<const Conditional>> conditionals;
};

// --- structure; the model's lock is held

// A new node behind `before`. The caller has checked everything. nullptr: no more ids.
Node* add_node(Graph& graph, CUgraphNodeType type, Payload payload,
               const std::vector<Edge>& before);
bool has_edge(const Node& from, const Node& to, const CUgraphEdgeData* data = nullptr);
void add_edge(Node& from, Node& to, const CUgraphEdgeData& data);
void remove_edge(Node& from, Node& to);
void remove_node(Node& node);
// With everything in it, also child graphs, and references of its own to the user objects. The
// copy's nodes name their originals. nullptr: no more ids.
std::shared_ptr<Graph> clone(const Graph& graph);
// The same, to be inside of a node: with a handle.
std::shared_ptr<Graph> clone_child(const Graph& graph);
// Whether it, or a graph inside of it, has references to user objects.
bool holds_user_objects(const Graph& graph);
// The graph that this one is in at last.
Graph& outermost(Graph& graph);
// Whether `node`, or one that it depends on, is `sought`, for all of `sought`.
bool all_reached(const std::vector<Node*>& from, const std::vector<Node*>& sought);

}  // namespace vgpu::graph
