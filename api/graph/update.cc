// What may change in an executable graph.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "api/graph/conditional.h"
#include "api/graph/exec.h"

namespace vgpu::graph {
namespace {

CUgraphExecUpdateResult compare(const KernelPayload& old, const KernelPayload& fresh) {
  if (old.params.ctx != fresh.params.ctx)
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  return old.attributes.cooperative() == fresh.attributes.cooperative() &&
                 old.attributes.cluster() == fresh.attributes.cluster()
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
}

CUgraphExecUpdateResult compare(const CopyPayload& old, const CopyPayload& fresh) {
  const bool same = old.params.srcMemoryType == fresh.params.srcMemoryType &&
                    old.params.dstMemoryType == fresh.params.dstMemoryType &&
                    old.context == fresh.context;
  const bool same_shape = old.params.WidthInBytes == fresh.params.WidthInBytes &&
                          old.params.Height == fresh.params.Height &&
                          old.params.Depth == fresh.params.Depth;
  return same && (same_shape || (old.linear() && fresh.linear()))
             ? CU_GRAPH_EXEC_UPDATE_SUCCESS
             : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult compare(const FillPayload& old, const FillPayload& fresh) {
  const auto& a = old.params;
  const auto& b = fresh.params;
  const bool same_shape = a.width == b.width && a.height == b.height && a.pitch == b.pitch &&
                          a.elementSize == b.elementSize;
  const bool rows = a.height <= 1 && b.height <= 1;
  return a.ctx == b.ctx && (same_shape || rows) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult compare(const OperationsPayload& old, const OperationsPayload& fresh) {
  const bool same =
      old.context == fresh.context && old.operations.size() == fresh.operations.size() &&
      std::equal(old.operations.begin(), old.operations.end(), fresh.operations.begin(),
                 [](const auto& a, const auto& b) { return a.operation == b.operation; });
  return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

CUgraphExecUpdateResult compare(const AllocPayload&, const AllocPayload&) {
  return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

CUgraphExecUpdateResult compare(const FreePayload&, const FreePayload&) {
  return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
}

// The handle may be another one, with another default.
CUgraphExecUpdateResult compare(const ConditionalPayload& old, const ConditionalPayload& fresh) {
  const bool same = old.type == fresh.type && old.bodies.size() == fresh.bodies.size() &&
                    old.conditional->context == fresh.conditional->context;
  return same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}

template <typename T>
CUgraphExecUpdateResult compare(const T&, const T&) {
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

struct Difference {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  const Node* node = nullptr;
  const Node* from = nullptr;
};

std::vector<size_t> places_before(const std::unordered_map<const Node*, size_t>& places,
                                  const Node& node) {
  std::vector<size_t> list;
  for (const Edge& edge : node.before) list.push_back(places.at(edge.node));
  std::sort(list.begin(), list.end());
  return list;
}

std::unordered_map<const Node*, size_t> places_of(const Graph& graph) {
  std::unordered_map<const Node*, size_t> places;
  for (size_t i = 0; i < graph.nodes.size(); ++i) places[graph.nodes[i].get()] = i;
  return places;
}

std::vector<const Graph*> inner_graphs(const Node& node) {
  std::vector<const Graph*> list;
  each_inner(node.payload, [&](auto& inner) { list.push_back(inner.get()); });
  return list;
}

// Nodes are paired in the order of their creation.
bool same_shape(const Graph& old, const Graph& fresh, Difference* difference) {
  if (old.nodes.size() != fresh.nodes.size()) {
    difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return false;
  }
  const auto old_places = places_of(old), fresh_places = places_of(fresh);
  for (size_t i = 0; i < old.nodes.size(); ++i) {
    const Node& a = *old.nodes[i];
    const Node& b = *fresh.nodes[i];
    difference->node = &b;
    const std::vector<size_t> before_a = places_before(old_places, a);
    const std::vector<size_t> before_b = places_before(fresh_places, b);
    if (before_a != before_b) {
      difference->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
      if (before_a.size() == before_b.size()) {
        const auto off = std::mismatch(before_a.begin(), before_a.end(), before_b.begin());
        difference->from = fresh.nodes[*off.second].get();
      }
      return false;
    }
    difference->result = a.type != b.type ? CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
                                          : compare_payloads(a.payload, b.payload);
    if (difference->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return false;
    const std::vector<const Graph*> inside_a = inner_graphs(a), inside_b = inner_graphs(b);
    for (size_t j = 0; j < inside_a.size(); ++j) {
      if (!same_shape(*inside_a[j], *inside_b[j], difference)) return false;
    }
  }
  return true;
}

// The references of `fresh` take the place of the old ones, which go to `left`: what was launched
// may still use those objects.
void take_user_objects(const Graph& fresh, Graph* old, Graph* left) {
  if (fresh.user_objects == old->user_objects) return;
  for (const auto& [object, count] : old->user_objects) left->user_objects[object] += count;
  old->user_objects.clear();
  for (const auto& [object, count] : fresh.user_objects) {
    if (Model::instance().retain(object, count)) old->user_objects[object] = count;
  }
}

void take_payloads(const Graph& fresh, Graph* old, const Plan& plan, Graph* left,
                   std::vector<uint32_t>* changed) {
  take_user_objects(fresh, old, left);
  for (size_t i = 0; i < old->nodes.size(); ++i) {
    Node& node = *old->nodes[i];
    const std::vector<const Graph*> inside = inner_graphs(*fresh.nodes[i]);
    size_t next = 0;
    each_inner(node.payload, [&](auto& inner) {
      take_payloads(*inside[next++], inner.get(), plan, left, changed);
    });
    if (node.type == CU_GRAPH_NODE_TYPE_EMPTY || node.type == CU_GRAPH_NODE_TYPE_GRAPH) continue;
    if (auto* conditional = std::get_if<ConditionalPayload>(&node.payload)) {
      const auto& other = std::get<ConditionalPayload>(fresh.nodes[i]->payload);
      if (conditional->conditional == other.conditional) continue;
      conditional->conditional = other.conditional;
    } else {
      node.payload = fresh.nodes[i]->payload;
    }
    changed->push_back(plan.place.at(&node));
  }
}

}  // namespace

CUgraphExecUpdateResult compare_payloads(const Payload& old, const Payload& fresh) {
  if (old.index() != fresh.index()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
  return std::visit(
      [&](const auto& a) { return compare(a, std::get<std::decay_t<decltype(a)>>(fresh)); }, old);
}

namespace {

// The model's lock is held. `left` keeps the user objects that `target` had.
CUresult take_graph(Graph* target, const Graph& fresh, const Plan& plan,
                    CUgraphExecUpdateResultInfo* info, Graph* left,
                    std::vector<uint32_t>* changed) {
  const Model& model = Model::instance();
  Difference difference;
  if (!same_shape(*target, fresh, &difference)) {
    info->result = difference.result;
    info->errorNode = difference.node == nullptr ? nullptr : model.handle_of(*difference.node);
    info->errorFromNode = difference.from == nullptr ? nullptr : model.handle_of(*difference.from);
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  CUgraphInstantiateResult why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  if (check_bodies(fresh, &info->errorNode, &why) != CUDA_SUCCESS) {
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  take_payloads(fresh, target, plan, left, changed);
  return CUDA_SUCCESS;
}

// What launches before the change use may go when it is past.
CUresult finish(Exec& exec, const std::vector<uint32_t>& changed, const Graph& left) {
  const CUresult result = changed.empty() ? CUDA_SUCCESS : exec.back->update(changed);
  if (!left.user_objects.empty()) exec.back->wait();
  return result;
}

}  // namespace

CUresult update_exec(Exec& exec, CUgraph handle, CUgraphExecUpdateResultInfo* info) {
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  Model& model = Model::instance();
  Graph left;  // ends last
  std::vector<uint32_t> changed;
  std::lock_guard in_use(exec.mutex);
  {
    std::lock_guard lock(model.mutex);
    const Graph* fresh = model.find_graph(handle);
    if (fresh == nullptr || fresh->captures != 0 || exec.back == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const CUresult r = take_graph(exec.graph.get(), *fresh, exec.plan, info, &left, &changed);
    if (r != CUDA_SUCCESS) return r;
  }
  return finish(exec, changed, left);
}

CUresult update_child(Exec& exec, CUgraphNode node_handle, CUgraph handle) {
  Model& model = Model::instance();
  Graph left;  // ends last
  std::vector<uint32_t> changed;
  std::lock_guard in_use(exec.mutex);
  {
    std::lock_guard lock(model.mutex);
    Node* node = exec.back == nullptr ? nullptr : node_in(exec, node_handle);
    auto* child = node == nullptr ? nullptr : std::get_if<ChildPayload>(&node->payload);
    const Graph* fresh = model.find_graph(handle);
    if (child == nullptr || fresh == nullptr || fresh->captures != 0)
      return CUDA_ERROR_INVALID_VALUE;
    CUgraphExecUpdateResultInfo info;
    const CUresult r = take_graph(child->graph.get(), *fresh, exec.plan, &info, &left, &changed);
    if (r != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
  }
  return finish(exec, changed, left);
}

}  // namespace vgpu::graph
