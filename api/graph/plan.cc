// Topological order, with child graphs in place of their nodes.
// SPDX-License-Identifier: Apache-2.0
#include "api/graph/plan.h"

#include <algorithm>

namespace vgpu::graph {

bool Plan::make(const Graph& graph) {
  steps.clear();
  regions.clear();
  place.clear();
  if (!add_region(graph)) return false;
  for (size_t i = 0; i < steps.size(); ++i) {  // those that are added meanwhile too
    const Node* node = steps[i].node;
    const auto* conditional =
        node == nullptr ? nullptr : std::get_if<ConditionalPayload>(&node->payload);
    if (conditional == nullptr) continue;
    for (const std::shared_ptr<Graph>& body : conditional->bodies) {
      steps[i].bodies.push_back(static_cast<uint32_t>(regions.size()));
      if (!add_region(*body)) return false;
    }
  }
  return true;
}

bool Plan::add_region(const Graph& graph) {
  std::vector<uint32_t> ends;
  const auto first = static_cast<uint32_t>(steps.size());
  const bool good = add(graph, {}, &ends);
  regions.push_back({first, static_cast<uint32_t>(steps.size())});
  return good;
}

// `roots_after`: what nodes without dependencies come after. `ends`: steps that nothing follows.
bool Plan::add(const Graph& graph, const std::vector<uint32_t>& roots_after,
               std::vector<uint32_t>* ends) {
  std::unordered_map<const Node*, size_t> open;  // dependencies that are not placed yet
  std::vector<const Node*> ready;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    open[node->get()] = (*node)->before.size();
    if ((*node)->before.empty()) ready.push_back(node->get());
  }
  size_t placed = 0;
  while (!ready.empty()) {
    const Node* node = ready.back();
    ready.pop_back();
    ++placed;
    Step step;
    step.node = node;
    step.before = node->before.empty() ? roots_after : std::vector<uint32_t>();
    for (const Edge& edge : node->before) step.before.push_back(place[edge.node]);
    std::sort(step.before.begin(), step.before.end());
    step.before.erase(std::unique(step.before.begin(), step.before.end()), step.before.end());
    if (const auto* child = std::get_if<ChildPayload>(&node->payload)) {
      step.node = nullptr;
      steps.push_back(std::move(step));
      Step join;
      if (!add(*child->graph, {static_cast<uint32_t>(steps.size() - 1)}, &join.before))
        return false;
      if (join.before.empty()) join.before = {static_cast<uint32_t>(steps.size() - 1)};
      steps.push_back(std::move(join));
    } else {
      steps.push_back(std::move(step));
    }
    place[node] = static_cast<uint32_t>(steps.size() - 1);
    if (node->after.empty()) ends->push_back(place[node]);
    for (auto edge = node->after.rbegin(); edge != node->after.rend(); ++edge) {
      if (--open[edge->node] == 0) ready.push_back(edge->node);
    }
  }
  return placed == graph.nodes.size();
}

namespace {

CUcontext context_of(const Payload& payload) {
  if (const auto* kernel = std::get_if<KernelPayload>(&payload)) return kernel->params.ctx;
  if (const auto* copy = std::get_if<CopyPayload>(&payload)) return copy->context;
  if (const auto* fill = std::get_if<FillPayload>(&payload)) return fill->params.ctx;
  if (const auto* operations = std::get_if<OperationsPayload>(&payload)) return operations->context;
  if (const auto* conditional = std::get_if<ConditionalPayload>(&payload))
    return conditional->conditional->context;
  return nullptr;
}

}  // namespace

CUresult context_of(const Plan& plan, CUcontext* context) {
  CUcontext found = nullptr;
  for (const Step& step : plan.steps) {
    const CUcontext each = step.node == nullptr ? nullptr : context_of(step.node->payload);
    if (each == nullptr || each == found) continue;
    if (found != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    found = each;
  }
  if (found != nullptr) *context = found;
  return CUDA_SUCCESS;
}

}  // namespace vgpu::graph
