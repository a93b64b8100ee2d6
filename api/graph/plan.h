// A graph as a list of steps in an order that keeps all dependencies, child graphs taken apart.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "api/graph/node.h"

namespace vgpu::graph {

struct Step {
  const Node* node = nullptr;    // null: joins what it comes after (the ends of a child graph)
  std::vector<uint32_t> before;  // earlier steps that must be past, each once
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

struct Plan {
  std::vector<Step> steps;
  std::unordered_map<const Node*, uint32_t> place;  // of nodes, not of child graphs

  // False when the edges make a circle. The model's lock is held; the graph must not change
  // afterwards.
  bool make(const Graph& graph);

 private:
  bool add(const Graph& graph, const std::vector<uint32_t>& roots_after,
           std::vector<uint32_t>* ends);
};

// The context that all steps with a context have; *context stays as it was when there are none.
// NOT_SUPPORTED for several.
CUresult context_of(const Plan& plan, CUcontext* context);

}  // namespace vgpu::graph
