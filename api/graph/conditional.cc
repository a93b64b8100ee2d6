// What conditional nodes may be, and where.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/conditional.h"

#include <algorithm>
#include <mutex>

#include "api/graph/backend.h"
#include "api/graph/model.h"

namespace vgpu::graph {
namespace {

// A handle is the driver's: any number may be given. All of the process are looked through, which
// only adding nodes does.
std::shared_ptr<const Conditional> find_conditional(const Model& model, uint64_t handle) {
  std::shared_ptr<const Conditional> found;
  model.graphs.for_each([&](uint64_t, const std::shared_ptr<Graph>& graph) {
    for (const auto& each : graph->conditionals) {
      if (each->handle == handle) found = each;
    }
  });
  return found;
}

bool size_fits(CUgraphConditionalNodeType type, unsigned size) {
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size != 0;
    default:
      return false;
  }
}

constexpr unsigned kBodiesMax = 1 << 16;  // of one node

// Kernels, copies, fills, conditional nodes, and graphs of these.
bool allowed_in_body(const Payload& payload) {
  if (const auto* copy = std::get_if<CopyPayload>(&payload))
    return backend().reached_by_device(*copy);
  return std::holds_alternative<EmptyPayload>(payload) ||
         std::holds_alternative<KernelPayload>(payload) ||
         std::holds_alternative<FillPayload>(payload) ||
         std::holds_alternative<ChildPayload>(payload) ||
         std::holds_alternative<ConditionalPayload>(payload);
}

const Node* find_forbidden(const Graph& graph, bool in_body) {
  const Node* found = nullptr;
  for (const auto& node : graph.nodes) {
    if (found != nullptr) break;
    if (in_body && !allowed_in_body(node->payload)) return node.get();
    const bool inside = in_body || node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    each_inner(node->payload, [&](auto& inner) {
      if (found == nullptr) found = find_forbidden(*inner, inside);
    });
  }
  return found;
}

bool uses(const Graph& graph, const Conditional& conditional) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
    const auto* payload = std::get_if<ConditionalPayload>(&node->payload);
    bool found = payload != nullptr && payload->conditional.get() == &conditional;
    each_inner(node->payload, [&](auto& inner) { found = found || uses(*inner, conditional); });
    return found;
  });
}

}  // namespace

CUresult read_conditional(const CUDA_CONDITIONAL_NODE_PARAMS& params, CUcontext current,
                          Payload* payload) {
  if (!size_fits(params.type, params.size)) return CUDA_ERROR_INVALID_VALUE;
  if (params.size > kBodiesMax) return CUDA_ERROR_OUT_OF_MEMORY;
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  ConditionalPayload node;
  node.type = params.type;
  node.conditional = find_conditional(model, params.handle);
  const CUcontext context = params.ctx != nullptr ? params.ctx : current;
  if (node.conditional == nullptr || node.conditional->context != context)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < params.size; ++i) {
    auto body = std::make_shared<Graph>();
    body->id = model.children.insert(body.get());
    if (body->id == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    node.shown.push_back(model.handle_of(*body));
    node.bodies.push_back(std::move(body));
  }
  *payload = std::move(node);
  return CUDA_SUCCESS;
}

CUresult check_place(Graph& graph, const Payload& payload) {
  const auto* node = std::get_if<ConditionalPayload>(&payload);
  if (node == nullptr) return CUDA_SUCCESS;
  int depth = 1;
  for (const Graph* at = &graph; at->parent != nullptr; at = at->parent->graph) {
    if (at->parent->type != CU_GRAPH_NODE_TYPE_CONDITIONAL || ++depth > kNestingMax)
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return outermost(graph).conditional_source == node->conditional->source
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

bool has_conditionals(const Graph& graph) {
  return !graph.conditionals.empty() ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL; });
}

CUresult check_bodies(const Graph& graph, CUgraphNode* error_node, CUgraphInstantiateResult* why) {
  const Node* forbidden = find_forbidden(graph, false);
  if (forbidden == nullptr) return CUDA_SUCCESS;
  *error_node = Model::instance().handle_of(*forbidden);
  *why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult check_conditionals(Graph& graph, CUgraphNode* error_node, CUgraphInstantiateResult* why) {
  // A body by itself: its handles are another graph's.
  if (graph.parent != nullptr && has_conditionals(graph)) return CUDA_ERROR_NOT_SUPPORTED;
  if (const CUresult r = check_bodies(graph, error_node, why); r != CUDA_SUCCESS) return r;
  for (const auto& conditional : graph.conditionals) {
    if (uses(graph, *conditional)) continue;
    *why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool taken = graph.conditional_source != nullptr && graph.conditional_source->instantiated;
  return taken ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

bool allowed(const Graph& graph, const Payload& payload) {
  for (const Graph* at = &graph; at->parent != nullptr; at = at->parent->graph) {
    if (at->parent->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return allowed_in_body(payload);
  }
  return true;
}

}  // namespace vgpu::graph
