// Conditional nodes of a guest's graphs: handles, and which nodes are of which body.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "op.h"
#include "server/graph.h"
#include "server/session.h"
#include "server_handlers.h"

namespace vgpu::server {

NodesResult read_conditional(std::span<const std::byte> bytes, const GraphSource* source,
                             GraphNode* node) {
  protocol::GraphConditionalNode& named = node->conditional;
  if (bytes.size() < sizeof(named)) return NodesResult::kMalformed;
  std::memcpy(&named, bytes.data(), sizeof(named));
  bytes = bytes.subspan(sizeof(named));
  if (named.bodies == 0 || named.bodies > protocol::kGraphNodesMax ||
      bytes.size() != size_t{named.bodies} * sizeof(uint32_t) ||
      named.type > CU_GRAPH_COND_TYPE_SWITCH || source == nullptr || !source->has(named.handle)) {
    return NodesResult::kMalformed;
  }
  node->body_nodes.resize(named.bodies);
  std::memcpy(node->body_nodes.data(), bytes.data(), bytes.size());
  return NodesResult::kGood;
}

// Bodies begin where the first of them does, behind the graph's own nodes, and follow one another
// in the order of their nodes.
bool find_regions(const std::vector<GraphNode>& nodes, std::vector<uint32_t>* region) {
  uint64_t inside = 0;
  for (const GraphNode& node : nodes) {
    for (const uint32_t count : node.body_nodes) inside += count;
  }
  if (inside > nodes.size()) return false;
  region->assign(nodes.size(), 0);
  std::vector<uint32_t> first{0}, depth{0};  // by region
  uint64_t next = nodes.size() - inside;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i >= next) return false;  // of a body that no node before it has
    const uint32_t own = (*region)[i];
    const std::vector<uint32_t>& before = nodes[i].before;
    if (!before.empty() && before.front() < first[own]) return false;
    if (!nodes[i].body_nodes.empty() && depth[own] >= protocol::kGraphNestingMax) return false;
    for (const uint32_t count : nodes[i].body_nodes) {
      std::fill_n(region->begin() + static_cast<ptrdiff_t>(next), count,
                  static_cast<uint32_t>(first.size()));
      first.push_back(static_cast<uint32_t>(next));
      depth.push_back(depth[own] + 1);
      next += count;
    }
  }
  return true;
}

bool find_source(Session& session, uint64_t id, std::shared_ptr<GraphSource>* source) {
  if (id == 0) return true;
  const GraphSourceEntry* entry = session.graph_sources().find(id);
  if (entry == nullptr || entry->source->context != session.bound()) return false;
  *source = entry->source;
  return true;
}

bool handle_GraphConditional(Session& session, const wire::GraphConditionalArgs& args,
                             const Record& record) {
  const DriverTable& driver = session.driver();
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  if (driver.cuGraphConditionalHandleCreate == nullptr || driver.cuGraphCreate == nullptr)
    return session.complete(record, CUDA_ERROR_NOT_SUPPORTED, nullptr, 0);
  GraphSourceEntry* entry = session.graph_sources().find(args.source);
  if (entry == nullptr) {
    auto made = std::make_shared<GraphSource>(&driver, session.bound());
    const CUresult created = driver.cuGraphCreate(&made->graph, 0);
    if (created != CUDA_SUCCESS) return session.complete(record, created, nullptr, 0);
    entry = session.graph_sources().insert(
        args.source, std::make_unique<GraphSourceEntry>(GraphSourceEntry{std::move(made)}));
    if (entry == nullptr) return session.malformed(record, "source id");
  }
  if (entry->source->context != session.bound())
    return session.malformed(record, "source of another");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (!entry->source->take_place()) return session.malformed(record, "too many handles");
  // A helper may be making a graph of it, which takes as long as the driver likes.
  session.pool().post([&session, source = entry->source, args, reply = record.reply()] {
    CUgraphConditionalHandle handle = 0;
    CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const Rundown::Use use(&source->context->use); use) {
      const std::lock_guard alone(source->building);
      (void)session.driver().cuCtxSetCurrent(source->context->handle);
      result = session.noted(
          session.driver().cuGraphConditionalHandleCreate(
              &handle, source->graph, source->context->handle, args.value, args.flags),
          source->context);
    }
    if (result == CUDA_SUCCESS) source->add(handle);
    wire::GraphConditionalReply answer;
    answer.handle = handle;
    session.channel().replies().complete_with(reply, result, answer);
  });
  return true;
}

bool GraphSource::take_place() {
  const std::lock_guard lock(mutex_);
  return places_ < protocol::kGraphConditionalsMax && ++places_ != 0;
}

void GraphSource::add(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  handles_.insert(handle);
}

bool GraphSource::has(uint64_t handle) const {
  const std::lock_guard lock(mutex_);
  return handles_.count(handle) != 0;
}

bool handle_GraphForget(Session& session, const wire::GraphForgetArgs& args, const Record& record) {
  if (session.graph_sources().take(args.source) == nullptr)
    return session.malformed(record, "unknown source of handles");
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
