// Conditional nodes: handles, bodies, and what graphs with them may be used for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include "api/graph/node.h"

namespace vgpu::graph {

// Parameters of a node; its bodies are new and empty. `current`: the context, if none is given.
// Without the model's lock. INVALID_VALUE for a handle that is none, a size that the type cannot
// have, or another context than the handle's.
CUresult read_conditional(const CUDA_CONDITIONAL_NODE_PARAMS& params, CUcontext current,
                          Payload* payload);

// --- the model's lock is held

// A node is added to `graph`: its handle must be of the outermost graph (INVALID_VALUE), and that
// must be the way to it through bodies only, not too deep (NOT_SUPPORTED).
CUresult check_place(Graph& graph, const Payload& payload);
// Whether there are conditional nodes, or handles for them: such a graph is not copied.
bool has_conditionals(const Graph& graph);
// Before instantiating. INVALID_VALUE: a body has what bodies must not have (*error_node), or a
// handle is not used (*why). NOT_SUPPORTED: an executable graph of it exists.
CUresult check_conditionals(Graph& graph, CUgraphNode* error_node, CUgraphInstantiateResult* why);
// The part of this that looks at what bodies have.
CUresult check_bodies(const Graph& graph, CUgraphNode* error_node, CUgraphInstantiateResult* why);
// Whether a node of `graph` may have these parameters, which depends on what the graph is part of.
bool allowed(const Graph& graph, const Payload& payload);

}  // namespace vgpu::graph
