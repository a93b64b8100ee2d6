// A graph as a list of steps in an order that keeps all dependencies, child graphs taken apart, and
// what conditional nodes run behind all else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "api/graph/node.h"

namespace vgpu::graph {

struct Step {
  const Node* node = nullptr;    // null: joins what it comes after (the ends of a child graph)
  std::vector<uint32_t> before;  // earlier steps of its region that must be past, each once
  std::vector<uint32_t> bodies;  // of a conditional node: regions, all later ones
  // What there is to do; null for joins, empty nodes, nodes that are switched off, and those of
  // memory, which is always there.
  const Payload* work() const {
    if (node == nullptr || !node->enabled || node->type == CU_GRAPH_NODE_TYPE_EMPTY ||
        node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      return nullptr;
    }
    return &node->payload;
  }
};

// Steps [first, end): of the graph itself, or of one body of a conditional node.
struct Region {
  uint32_t first = 0, end = 0;
};

struct Plan {
  std::vector<Step> steps;
  std::vector<Region> regions;  // one behind the other; the first is the graph's own
  std::unordered_map<const Node*, uint32_t> place;  // of nodes, not of child graphs

  // False when the edges make a circle, of the graph or of one inside it. The model's lock is held;
  // the graph must not change afterwards.
  bool make(const Graph& graph);
  bool has_conditionals() const { return regions.size() > 1; }

 private:
  bool add_region(const Graph& graph);
  bool add(const Graph& graph, const std::vector<uint32_t>& roots_after,
           std::vector<uint32_t>* ends);
};

// The context that all steps with a context have; *context stays as it was when there are none.
// NOT_SUPPORTED for several.
CUresult context_of(const Plan& plan, CUcontext* context);

}  // namespace vgpu::graph
