// Nodes and edges: adding, removing, copying.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "api/graph/model.h"

namespace vgpu::graph {

Model& Model::instance() {
  static Model* const model = new Model();
  return *model;
}

Graph* Model::find_graph(CUgraph handle) const {
  if (const std::shared_ptr<Graph>* own = graphs.find(id(handle))) return own->get();
  Graph* const* child = children.find(id(handle));
  return child == nullptr ? nullptr : *child;
}

Node* Model::find_node(CUgraphNode handle) const {
  Node* const* found = nodes.find(id(handle));
  return found == nullptr ? nullptr : *found;
}

std::shared_ptr<Exec> Model::find_exec(CUgraphExec handle) const {
  const std::shared_ptr<Exec>* found = execs.find(id(handle));
  return found == nullptr ? nullptr : *found;
}

Graph::~Graph() {
  Model& model = Model::instance();
  for (const auto& node : nodes) model.nodes.remove(node->id);
  model.children.remove(id);
}

Node* add_node(Graph& graph, CUgraphNodeType type, Payload payload,
               const std::vector<Edge>& before) {
  auto node = std::make_unique<Node>();
  node->id = Model::instance().nodes.insert(node.get());
  if (node->id == 0) return nullptr;
  node->type = type;
  node->payload = std::move(payload);
  node->graph = &graph;
  for (const Edge& edge : before) add_edge(*edge.node, *node, edge.data);
  if (auto* child = std::get_if<ChildPayload>(&node->payload)) child->graph->parent = node.get();
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().get();
}

bool has_edge(const Node& from, const Node& to, const CUgraphEdgeData* data) {
  return std::any_of(to.before.begin(), to.before.end(), [&](const Edge& edge) {
    return edge.node == &from &&
           (data == nullptr || std::memcmp(&edge.data, data, sizeof(*data)) == 0);
  });
}

void add_edge(Node& from, Node& to, const CUgraphEdgeData& data) {
  to.before.push_back({&from, data});
  from.after.push_back({&to, data});
}

void remove_edge(Node& from, Node& to) {
  std::erase_if(to.before, [&](const Edge& edge) { return edge.node == &from; });
  std::erase_if(from.after, [&](const Edge& edge) { return edge.node == &to; });
}

void remove_node(Node& node) {
  for (const Edge& edge : node.before)
    std::erase_if(edge.node->after, [&](const Edge& other) { return other.node == &node; });
  for (const Edge& edge : node.after)
    std::erase_if(edge.node->before, [&](const Edge& other) { return other.node == &node; });
  Model::instance().nodes.remove(node.id);
  std::erase_if(node.graph->nodes, [&](const auto& each) { return each.get() == &node; });
}

namespace {

Payload clone_payload(const Payload& payload) {
  const auto* child = std::get_if<ChildPayload>(&payload);
  if (child == nullptr) return payload;
  ChildPayload copy{clone(*child->graph)};
  copy.graph->id = Model::instance().children.insert(copy.graph.get());
  return copy;
}

}  // namespace

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  copy->original = graph.id;
  std::unordered_map<const Node*, Node*> copies;
  copies.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    Node* made = add_node(*copy, node->type, clone_payload(node->payload), {});
    if (made == nullptr) return nullptr;
    made->original = node->id;
    copies[node.get()] = made;
  }
  for (const auto& node : graph.nodes) {
    for (const Edge& edge : node->before)
      add_edge(*copies[edge.node], *copies[node.get()], edge.data);
  }
  return copy;
}

bool all_reached(const std::vector<Node*>& from, const std::vector<Node*>& sought) {
  std::unordered_set<const Node*> seen(from.begin(), from.end());
  std::vector<const Node*> left(from.begin(), from.end());
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    for (const Edge& edge : node->before) {
      if (seen.insert(edge.node).second) left.push_back(edge.node);
    }
  }
  return std::all_of(sought.begin(), sought.end(),
                     [&](const Node* node) { return seen.count(node) != 0; });
}

}  // namespace vgpu::graph
