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

void ModelMutex::lock() {
  mutex_.lock();
  ++depth_;
}

void ModelMutex::unlock() {
  std::vector<std::function<void()>> due;
  if (--depth_ == 0) due.swap(later_);
  mutex_.unlock();
  for (const auto& work : due) work();
}

bool Model::retain(uint64_t object, uint64_t count) {
  UserObject* found = user_objects.find(object);
  if (found == nullptr) return false;
  found->count += count;
  return true;
}

void Model::release(uint64_t object, uint64_t count) {
  UserObject* found = user_objects.find(object);
  if (found == nullptr) return;
  found->count -= std::min(count, found->count);
  if (found->count != 0) return;
  mutex.later([ended = *found] { ended.destroy(ended.pointer); });
  user_objects.remove(object);
}

Graph::~Graph() {
  Model& model = Model::instance();
  std::lock_guard lock(model.mutex);
  for (const auto& node : nodes) model.nodes.remove(node->id);
  model.children.remove(id);
  for (const auto& [object, count] : user_objects) model.release(object, count);
  nodes.clear();  // what is inside of them, under the lock too
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
  each_inner(node->payload, [&](auto& inner) { inner->parent = node.get(); });
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

// False: no more ids.
bool clone_payload(const Payload& payload, Payload* copy) {
  *copy = payload;
  bool all = true;
  each_inner(*copy, [&](auto& inner) {
    inner = clone_child(*inner);
    all = all && inner != nullptr;
  });
  return all;
}

}  // namespace

std::shared_ptr<Graph> clone(const Graph& graph) {
  auto copy = std::make_shared<Graph>();
  copy->original = graph.id;
  std::unordered_map<const Node*, Node*> copies;
  copies.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    Payload payload;
    if (!clone_payload(node->payload, &payload)) return nullptr;
    Node* made = add_node(*copy, node->type, std::move(payload), {});
    if (made == nullptr) return nullptr;
    made->original = node->id;
    made->enabled = node->enabled;
    copies[node.get()] = made;
  }
  for (const auto& node : graph.nodes) {
    for (const Edge& edge : node->before)
      add_edge(*copies[edge.node], *copies[node.get()], edge.data);
  }
  for (const auto& [object, count] : graph.user_objects) {
    if (Model::instance().retain(object, count)) copy->user_objects[object] = count;
  }
  return copy;
}

std::shared_ptr<Graph> clone_child(const Graph& graph) {
  std::shared_ptr<Graph> copy = clone(graph);
  if (copy != nullptr) copy->id = Model::instance().children.insert(copy.get());
  return copy == nullptr || copy->id == 0 ? nullptr : copy;
}

bool holds_user_objects(const Graph& graph) {
  if (!graph.user_objects.empty()) return true;
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    bool holds = false;
    each_inner(node->payload, [&](auto& inner) { holds = holds || holds_user_objects(*inner); });
    return holds;
  });
}

Graph& outermost(Graph& graph) {
  Graph* found = &graph;
  while (found->parent != nullptr) found = found->parent->graph;
  return *found;
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
