// Making and changing executable graphs.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/exec.h"

#include <cstring>
#include <utility>

#include "api/graph/conditional.h"
#include "api/graph/memory.h"

namespace vgpu::graph {
namespace {

constexpr uint64_t kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

// A copy of the graph and its plan, under the model's lock.
CUresult take_copy(Model& model, CUgraph handle, Exec* exec, CUgraphNode* error_node,
                   CUgraphInstantiateResult* why) {
  Graph* graph = model.find_graph(handle);
  if (graph == nullptr || graph->captures != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_conditionals(*graph, error_node, why); r != CUDA_SUCCESS) return r;
  exec->graph = clone(*graph);
  if (exec->graph == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  exec->has_memory = has_memory_nodes(*graph);
  if (const CUresult r = claim_memory(graph); r != CUDA_SUCCESS) return r;
  if (exec->plan.make(*exec->graph)) {
    exec->source = graph->conditional_source;
    if (exec->source != nullptr) exec->source->instantiated = true;
    return CUDA_SUCCESS;
  }
  disclaim_memory(*exec->graph);
  *why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult instantiate(CUgraph handle, uint64_t flags, CUgraphExec* out, CUgraphNode* error_node,
                     CUgraphInstantiateResult* why) {
  Model& model = Model::instance();
  *why = CUDA_GRAPH_INSTANTIATE_ERROR;
  *error_node = nullptr;
  if (out == nullptr || (flags & ~kFlags) != 0) return wrong_argument();
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  CUcontext current = nullptr;
  if (const CUresult r = backend().enter(&current); r != CUDA_SUCCESS) return r;
  auto exec = std::make_shared<Exec>();
  exec->flags = flags;
  {
    std::lock_guard lock(model.mutex);
    CUresult r = take_copy(model, handle, exec.get(), error_node, why);
    if (r == CUDA_SUCCESS) {
      exec->id = model.execs.insert(exec);
      if (exec->id == 0) {
        disclaim_memory(*exec->graph);
        r = CUDA_ERROR_OUT_OF_MEMORY;
      }
    }
    if (r != CUDA_SUCCESS) {  // a graph ends under the lock
      if (exec->source != nullptr) exec->source->instantiated = false;
      exec->graph.reset();
      exec->source.reset();
      return r;
    }
  }
  // Nobody has the handle yet, so nobody launches it.
  const CUresult made = backend().instantiate(exec->id, exec->plan, flags, &exec->back);
  if (made != CUDA_SUCCESS) {
    std::lock_guard lock(model.mutex);
    disclaim_memory(*exec->graph);
    if (exec->source != nullptr) exec->source->instantiated = false;
    exec->source.reset();
    model.execs.remove(exec->id);
    exec->graph.reset();
    return made;
  }
  *why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  *out = reinterpret_cast<CUgraphExec>(model.bits(exec->id));
  return CUDA_SUCCESS;
}

CUresult destroy_exec(CUgraphExec handle) {
  Model& model = Model::instance();
  std::shared_ptr<Exec> exec;
  {
    std::lock_guard lock(model.mutex);
    exec = model.find_exec(handle);
    if (exec == nullptr || exec->back == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // The entry goes, its id does not: the worker is told first that it is free again.
    *model.execs.find(exec->id) = nullptr;
  }
  std::lock_guard in_use(exec->mutex);
  if (holds_user_objects(*exec->graph)) exec->back->wait();
  exec->back.reset();
  std::lock_guard lock(model.mutex);
  model.execs.remove(exec->id);
  disclaim_memory(*exec->graph);
  if (exec->source != nullptr) exec->source->instantiated = false;
  exec->source.reset();
  exec->graph.reset();
  exec->plan = {};
  return CUDA_SUCCESS;
}

namespace {

void find_original(const Graph& graph, uint64_t id, Node** found) {
  for (const auto& node : graph.nodes) {
    if (*found != nullptr) return;
    if (node->original == id) *found = node.get();
    each_inner(node->payload, [&](auto& inner) {
      if (*found == nullptr) find_original(*inner, id, found);
    });
  }
}

}  // namespace

Node* node_in(const Exec& exec, CUgraphNode handle) {
  const Node* node = Model::instance().find_node(handle);
  Node* found = nullptr;
  if (node == nullptr || exec.graph == nullptr) return nullptr;
  find_original(*exec.graph, node->id, &found);
  return found;
}

CUresult set_payload(Exec& exec, CUgraphNode handle, CUgraphNodeType type, Payload payload) {
  Model& model = Model::instance();
  std::vector<uint32_t> changed;
  std::lock_guard in_use(exec.mutex);
  Payload before;
  {
    std::lock_guard lock(model.mutex);
    Node* node = exec.back == nullptr ? nullptr : node_in(exec, handle);
    if (node == nullptr || node->type != type) return CUDA_ERROR_INVALID_VALUE;
    if (auto* copy = std::get_if<CopyPayload>(&payload)) {
      const auto& old = std::get<CopyPayload>(node->payload);
      if (!copy->linear() || !old.linear()) return CUDA_ERROR_INVALID_VALUE;
    }
    if (auto* kernel = std::get_if<KernelPayload>(&payload))  // attributes are set apart
      kernel->attributes = std::get<KernelPayload>(node->payload).attributes;
    if (compare_payloads(node->payload, payload) != CU_GRAPH_EXEC_UPDATE_SUCCESS ||
        !allowed(*node->graph, payload)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    before = std::exchange(node->payload, std::move(payload));
    changed.push_back(exec.plan.place.at(node));
  }
  const CUresult result = exec.back->update(changed);
  if (result == CUDA_SUCCESS) return result;
  // It stays as it was.
  std::lock_guard lock(model.mutex);
  if (Node* node = node_in(exec, handle); node != nullptr) node->payload = std::move(before);
  return result;
}

CUresult set_enabled(Exec& exec, CUgraphNode handle, bool enabled) {
  std::vector<uint32_t> changed;
  std::lock_guard in_use(exec.mutex);
  {
    std::lock_guard lock(Model::instance().mutex);
    Node* node = exec.back == nullptr ? nullptr : node_in(exec, handle);
    if (node == nullptr || node->type > CU_GRAPH_NODE_TYPE_MEMSET) return CUDA_ERROR_INVALID_VALUE;
    if (node->enabled == enabled) return CUDA_SUCCESS;
    node->enabled = enabled;
    changed.push_back(exec.plan.place.at(node));
  }
  return exec.back->update(changed);
}

}  // namespace vgpu::graph
