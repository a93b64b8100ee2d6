// Parameters of nodes of all kinds, as programs give them and get them back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "api/graph/node.h"

namespace vgpu::graph {

// Copies and checks. A context that is not given is the current one. Without the model's lock.
CUresult read_params(const CUgraphNodeParams& params, Payload* payload);

// False: a node of this kind keeps its parameters.
bool parameters_may_change(CUgraphNodeType type);

// Adds a node to the graph of `handle`; `data` may be null.
CUresult create_node(CUgraphNode* out, CUgraph handle, const CUgraphNode* before,
                     const CUgraphEdgeData* data, size_t count, CUgraphNodeType type,
                     Payload payload);

// Gives a node of a graph other parameters of its own kind.
CUresult change_node(CUgraphNode handle, CUgraphNodeType type, Payload payload);

// Reads edges of a call: nodes of `graph`, none twice.
CUresult read_edges(const Graph& graph, const CUgraphNode* nodes, const CUgraphEdgeData* data,
                    size_t count, std::vector<Edge>* edges);
bool valid_edge(const Node& from, const Node& to, const CUgraphEdgeData& data);

}  // namespace vgpu::graph
