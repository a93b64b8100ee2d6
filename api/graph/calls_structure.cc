// Graphs themselves: life, nodes, edges, copies.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <cudaProfiler.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "api/graph/backend.h"
#include "api/graph/conditional.h"
#include "api/graph/dot.h"
#include "api/graph/exec.h"
#include "api/graph/memory.h"
#include "api/graph/model.h"
#include "api/graph/node_params.h"
#include "driver_functions.h"

namespace vgpu::driver {

using graph::Edge;
using graph::Graph;
using graph::Model;
using graph::Node;

namespace {

CUresult publish(std::shared_ptr<Graph> made, CUgraph* out) {
  Model& model = Model::instance();
  Graph* graph = made.get();
  graph->id = model.graphs.insert(std::move(made));
  if (graph->id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = model.handle_of(*graph);
  return CUDA_SUCCESS;
}

// How calls give lists: without a place *count is filled in; with one at most *count entries are,
// the rest of the places is cleared. `put(i, element)`, `clear(i)`.
template <typename Put, typename Clear>
CUresult give_list(size_t have, bool has_place, size_t* count, Put put, Clear clear) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!has_place) {
    *count = have;
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) i < have ? put(i) : clear(i);
  *count = std::min(*count, have);
  return CUDA_SUCCESS;
}

CUresult give_nodes(const std::vector<const Node*>& list, CUgraphNode* nodes, size_t* count) {
  const Model& model = Model::instance();
  return give_list(
      list.size(), nodes != nullptr, count, [&](size_t i) { nodes[i] = model.handle_of(*list[i]); },
      [&](size_t i) { nodes[i] = nullptr; });
}

bool is_default(const CUgraphEdgeData& data) {
  const CUgraphEdgeData none = {};
  return std::memcmp(&data, &none, sizeof(data)) == 0;
}

// LOSSY_QUERY: there is more to an edge than the caller asks for.
CUresult give_edges(const std::vector<Edge>& list, CUgraphNode* nodes, CUgraphEdgeData* data,
                    size_t* count) {
  const Model& model = Model::instance();
  if (data == nullptr && nodes != nullptr) {
    for (const Edge& edge : list) {
      if (!is_default(edge.data)) return CUDA_ERROR_LOSSY_QUERY;
    }
  }
  return give_list(
      list.size(), nodes != nullptr, count,
      [&](size_t i) {
        nodes[i] = model.handle_of(*list[i].node);
        if (data != nullptr) data[i] = list[i].data;
      },
      [&](size_t i) {
        nodes[i] = nullptr;
        if (data != nullptr) data[i] = {};
      });
}

// Calls `use` with the graph or node of a handle, under the lock.
template <typename Use>
CUresult with_graph(CUgraph handle, Use use) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(Model::instance().mutex);
  Graph* found = Model::instance().find_graph(handle);
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : use(*found);
}

template <typename Use>
CUresult with_node(CUgraphNode handle, Use use) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  std::lock_guard lock(Model::instance().mutex);
  Node* found = Model::instance().find_node(handle);
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : use(*found);
}

struct Pair {
  Node *from, *to;
  CUgraphEdgeData data;
};

CUresult read_pairs(const Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                    const CUgraphEdgeData* data, size_t count, std::vector<Pair>* pairs) {
  const Model& model = Model::instance();
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const Pair pair{model.find_node(from[i]), model.find_node(to[i]),
                    data == nullptr ? CUgraphEdgeData{} : data[i]};
    if (pair.from == nullptr || pair.to == nullptr || pair.from == pair.to ||
        pair.from->graph != &graph || pair.to->graph != &graph ||
        !graph::valid_edge(*pair.from, *pair.to, pair.data)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    pairs->push_back(pair);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  if (const CUresult r = graph::backend().ready(); r != CUDA_SUCCESS) return r;
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(Model::instance().mutex);
  return publish(std::make_shared<Graph>(), out);
}

CUresult cuGraphDestroy(CUgraph handle) {
  return with_graph(handle, [&](Graph& found) {
    if (found.parent != nullptr || found.captures != 0) return CUDA_ERROR_INVALID_VALUE;
    Model::instance().graphs.remove(found.id);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphClone(CUgraph* out, CUgraph original) {
  if (out == nullptr) return graph::wrong_argument();
  return with_graph(original, [&](Graph& found) {
    if (graph::has_memory_nodes(found) || graph::has_conditionals(found))
      return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_ptr<Graph> copy = graph::clone(found);
    return copy == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : publish(std::move(copy), out);
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  if (out == nullptr) return graph::wrong_argument();
  return with_graph(clone, [&](Graph& found) {
    const uint64_t id = Model::instance().id(original);
    for (const auto& node : found.nodes) {
      if (node->original != id || id == 0) continue;
      *out = Model::instance().handle_of(*node);
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (type == nullptr) return graph::wrong_argument();
  return with_node(node, [&](Node& found) {
    *type = found.type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graph(handle, [&](Graph& found) {
    std::vector<const Node*> list;
    for (const auto& node : found.nodes) list.push_back(node.get());
    return give_nodes(list, nodes, count);
  });
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return with_graph(handle, [&](Graph& found) {
    std::vector<const Node*> list;
    for (const auto& node : found.nodes) {
      if (node->before.empty()) list.push_back(node.get());
    }
    return give_nodes(list, nodes, count);
  });
}

CUresult cuGraphGetEdges_v2(CUgraph handle, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* data, size_t* count) {
  if ((from == nullptr) != (to == nullptr)) return graph::wrong_argument();
  return with_graph(handle, [&](Graph& found) {
    const Model& model = Model::instance();
    std::vector<Pair> list;
    for (const auto& node : found.nodes) {
      for (const Edge& edge : node->before) {
        if (!is_default(edge.data) && data == nullptr && from != nullptr)
          return CUDA_ERROR_LOSSY_QUERY;
        list.push_back({edge.node, node.get(), edge.data});
      }
    }
    return give_list(
        list.size(), from != nullptr, count,
        [&](size_t i) {
          from[i] = model.handle_of(*list[i].from);
          to[i] = model.handle_of(*list[i].to);
          if (data != nullptr) data[i] = list[i].data;
        },
        [&](size_t i) {
          from[i] = to[i] = nullptr;
          if (data != nullptr) data[i] = {};
        });
  });
}

CUresult cuGraphGetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, size_t* count) {
  return driver::cuGraphGetEdges_v2(handle, from, to, nullptr, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* data,
                                       size_t* count) {
  return with_node(node, [&](Node& found) { return give_edges(found.before, nodes, data, count); });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return driver::cuGraphNodeGetDependencies_v2(node, nodes, nullptr, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* nodes,
                                         CUgraphEdgeData* data, size_t* count) {
  return with_node(node, [&](Node& found) { return give_edges(found.after, nodes, data, count); });
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode* nodes, size_t* count) {
  return driver::cuGraphNodeGetDependentNodes_v2(node, nodes, nullptr, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* data, size_t count) {
  return with_graph(handle, [&](Graph& found) {
    std::vector<Pair> pairs;
    if (const CUresult r = read_pairs(found, from, to, data, count, &pairs); r != CUDA_SUCCESS)
      return r;
    std::set<std::pair<const Node*, const Node*>> named;
    for (const Pair& pair : pairs) {
      const bool again = !named.insert({pair.from, pair.to}).second;
      if (again || graph::has_edge(*pair.from, *pair.to)) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const Pair& pair : pairs) graph::add_edge(*pair.from, *pair.to, pair.data);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  return driver::cuGraphAddDependencies_v2(handle, from, to, nullptr, count);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph handle, const CUgraphNode* from,
                                      const CUgraphNode* to, const CUgraphEdgeData* data,
                                      size_t count) {
  return with_graph(handle, [&](Graph& found) {
    std::vector<Pair> pairs;
    if (const CUresult r = read_pairs(found, from, to, data, count, &pairs); r != CUDA_SUCCESS)
      return r;
    if (graph::has_memory_nodes(found)) return CUDA_ERROR_NOT_SUPPORTED;
    for (const Pair& pair : pairs) {
      if (!graph::has_edge(*pair.from, *pair.to, &pair.data)) return CUDA_ERROR_INVALID_VALUE;
    }
    for (const Pair& pair : pairs) graph::remove_edge(*pair.from, *pair.to);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRemoveDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   size_t count) {
  return driver::cuGraphRemoveDependencies_v2(handle, from, to, nullptr, count);
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  return with_node(node, [](Node& found) {
    if (graph::has_memory_nodes(*found.graph)) return CUDA_ERROR_NOT_SUPPORTED;
    graph::remove_node(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDebugDotPrint(CUgraph handle, const char* path, unsigned int flags) {
  if (path == nullptr) return graph::wrong_argument();
  std::string text;
  const CUresult result = with_graph(handle, [&](Graph& found) {
    text = graph::dot_text(found, flags);
    return CUDA_SUCCESS;
  });
  return result == CUDA_SUCCESS ? graph::write_text(path, text) : result;
}

}  // namespace vgpu::driver
