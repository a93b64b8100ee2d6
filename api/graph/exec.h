// Executable graphs: a copy of the graph as it was, and what the driver has made of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <memory>
#include <mutex>
#include <vector>

#include "api/graph/backend.h"
#include "api/graph/model.h"

namespace vgpu::graph {

struct Exec {
  uint64_t id = 0;
  uint64_t flags = 0;
  std::shared_ptr<Graph> graph;
  Plan plan;
  bool has_memory = false;                    // nodes that allocate or free; does not change
  std::shared_ptr<ConditionalSource> source;  // of the graph that it was made from; or null
  std::mutex mutex;                           // taken before the model's; guards the rest
  std::unique_ptr<ExecBackend> back;
};

// All of these take the model's lock themselves.
CUresult instantiate(CUgraph handle, uint64_t flags, CUgraphExec* out, CUgraphNode* error_node,
                     CUgraphInstantiateResult* why);
CUresult destroy_exec(CUgraphExec handle);
CUresult update_exec(Exec& exec, CUgraph handle, CUgraphExecUpdateResultInfo* info);
CUresult update_child(Exec& exec, CUgraphNode node, CUgraph handle);
// The node of `exec` that stands for `handle`, a node of the graph that it was made from; nullptr.
Node* node_in(const Exec& exec, CUgraphNode handle);
// Gives a node of `exec` other parameters, if its kind and the rules for executable graphs allow
// it. Checked already but for that.
CUresult set_payload(Exec& exec, CUgraphNode handle, CUgraphNodeType type, Payload payload);
CUresult set_enabled(Exec& exec, CUgraphNode handle, bool enabled);

// Why a node may not go on with these parameters; SUCCESS when it may.
CUgraphExecUpdateResult compare_payloads(const Payload& old, const Payload& fresh);

}  // namespace vgpu::graph
