// Nodes of a graph as the guest sends them: copied, checked, resolved.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "op.h"
#include "protocol/wire/graph_nodes.h"
#include "server/cluster.h"
#include "server/graph.h"
#include "server/memory_operation.h"
#include "server/rect.h"
#include "server/session.h"

namespace vgpu::server {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kOperationsMax = 255;

template <typename Args>
bool take(Bytes* bytes, Args* args) {
  if (bytes->size() < sizeof(*args)) return false;
  std::memcpy(args, bytes->data(), sizeof(*args));
  *bytes = bytes->subspan(sizeof(*args));
  return true;
}

// Each of these: kMalformed when the bytes are none of this command.
NodesResult read_launch(Session& session, Bytes bytes, GraphNode* node) {
  if (!take(&bytes, &node->launch) || node->launch.param_bytes != bytes.size() ||
      (node->launch.flags & ~protocol::kLaunchCooperative) != 0 ||
      !good_cluster(node->launch.cluster)) {
    return NodesResult::kMalformed;
  }
  CUresult result = CUDA_SUCCESS;
  const Kernel* kernel = find_kernel(session, node->launch.module, node->launch.index, &result);
  if (kernel == nullptr || result != CUDA_SUCCESS) return NodesResult::kStale;
  // The driver reads as many bytes as the kernel has parameters.
  if (node->launch.param_bytes < kernel->param_bytes) return NodesResult::kMalformed;
  node->function = kernel->function;
  const std::shared_ptr<Module> module = session.modules().find(node->launch.module);
  node->module = module;
  node->code = module.get();
  node->params.assign(bytes.begin(), bytes.end());
  return NodesResult::kGood;
}

NodesResult read_event(Session& session, uint64_t id, GraphNode* node) {
  const EventEntry* entry = session.events().find(id);
  if (entry == nullptr || entry->event->context != session.bound()) return NodesResult::kStale;
  node->event = entry->event;
  return NodesResult::kGood;
}

NodesResult read_operations(Session& session, Bytes bytes, GraphNode* node) {
  wire::StreamMemoryArgs args;
  while (take(&bytes, &args)) {
    if (check_memory_operation(session, args) != nullptr) return NodesResult::kStale;
    node->operations.push_back(args);
  }
  const bool good =
      bytes.empty() && !node->operations.empty() && node->operations.size() <= kOperationsMax;
  return good ? NodesResult::kGood : NodesResult::kMalformed;
}

NodesResult take_point(Session& session, uint64_t call, std::shared_ptr<HostPoint>* taken) {
  HostPoint* point = nullptr;
  HostCalls& calls = session.host_calls();
  const auto get = [&] {
    return calls.take(session.driver(), call, session.bound(), true, &point);
  };
  const CUresult result = calls.needs_memory(true) ? session.make_at_home(get) : get();
  if (result != CUDA_SUCCESS) return NodesResult::kStale;
  *taken = std::shared_ptr<HostPoint>(point, [&calls](HostPoint* each) { calls.give(each); });
  return NodesResult::kGood;
}

NodesResult read_function(Session& session, Bytes bytes, GraphNode* node) {
  wire::HostFunctionArgs args;
  if (!take(&bytes, &args) || !bytes.empty() || args.kind != 0) return NodesResult::kMalformed;
  return take_point(session, args.call, &node->point);
}

NodesResult read_copy(Session& session, Bytes bytes, GraphNode* node) {
  protocol::GraphCopyCalls calls;
  if (!take(&bytes, &node->copy)) return NodesResult::kMalformed;
  if (!bytes.empty() && (!take(&bytes, &calls) || !bytes.empty())) return NodesResult::kMalformed;
  if (resolve_copy(session, session.bound(), node->copy, &node->box) != nullptr)
    return NodesResult::kStale;
  NodesResult result = NodesResult::kGood;
  if (calls.before != 0) result = take_point(session, calls.before, &node->point);
  if (calls.after != 0 && result == NodesResult::kGood)
    result = take_point(session, calls.after, &node->after);
  return result;
}

NodesResult read_command(Session& session, Bytes bytes, const GraphSource* source,
                         GraphNode* node) {
  switch (static_cast<Op>(node->op)) {
    case Op::kLaunch:
      return read_launch(session, bytes, node);
    case Op::kRectCopy:
      return read_copy(session, bytes, node);
    case Op::kRectFill:
      if (!take(&bytes, &node->fill) || !bytes.empty()) return NodesResult::kMalformed;
      return check_fill(session, node->fill) == nullptr ? NodesResult::kGood : NodesResult::kStale;
    case Op::kEventRecord: {
      wire::EventRecordArgs args;
      if (!take(&bytes, &args) || !bytes.empty()) return NodesResult::kMalformed;
      return read_event(session, args.event, node);
    }
    case Op::kStreamWaitEvent: {
      wire::StreamWaitEventArgs args;
      if (!take(&bytes, &args) || !bytes.empty()) return NodesResult::kMalformed;
      return read_event(session, args.event, node);
    }
    case Op::kStreamMemory:
      return read_operations(session, bytes, node);
    case Op::kHostFunction:
      return read_function(session, bytes, node);
    case Op::kGraphConditional:
      return read_conditional(bytes, source, node);
    default:
      return node->op == 0 && bytes.empty() ? NodesResult::kGood : NodesResult::kMalformed;
  }
}

// Dependencies lead to earlier nodes only, each once, so there is no circle.
bool ascending(const std::vector<uint32_t>& before, uint32_t number) {
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] >= number || (i != 0 && before[i] <= before[i - 1])) return false;
  }
  return true;
}

}  // namespace

NodesResult read_nodes(Session& session, std::span<const std::byte> bytes, uint32_t count,
                       bool update, const GraphSource* source, Graph* graph,
                       std::vector<uint32_t>* changed, const char** why) {
  protocol::GraphNodeReader reader(bytes);
  protocol::GraphNodeHeader header;
  std::vector<GraphNode> nodes;
  NodesResult result = NodesResult::kGood;
  *why = "nodes of a graph";
  Bytes command;
  GraphNode node;
  while (reader.next(&header, &node.before, &command)) {
    const uint32_t number = update ? header.number : static_cast<uint32_t>(nodes.size());
    const bool fits =
        update ? number < graph->nodes.size() && header.before == 0
               : header.number == number && number < count && ascending(node.before, number);
    if (!fits || nodes.size() >= count || (header.flags & ~protocol::kGraphNodePriority) != 0)
      return NodesResult::kMalformed;
    node.op = header.op;
    node.has_priority = (header.flags & protocol::kGraphNodePriority) != 0;
    const NodesResult each = read_command(session, command, source, &node);
    if (each == NodesResult::kMalformed) return each;
    if (each == NodesResult::kStale) result = each;
    if (update && node.body_nodes != graph->nodes[number].body_nodes)
      return NodesResult::kMalformed;
    changed->push_back(number);
    nodes.push_back(std::move(node));
    node = {};
  }
  if (reader.damaged() || nodes.size() != count) return NodesResult::kMalformed;
  if (!update && !find_regions(nodes, &graph->region)) return NodesResult::kMalformed;
  if (result != NodesResult::kGood) return result;
  for (GraphNode& each : nodes) {
    if (each.event != nullptr) each.event->in_graph = true;
  }
  if (!update) {
    graph->nodes = std::move(nodes);
    return result;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    GraphNode& old = graph->nodes[(*changed)[i]];
    nodes[i].before = std::move(old.before);
    old = std::move(nodes[i]);
  }
  return result;
}

// The guest may have given a name away again, so it is not the names that count.
bool still_whole(Session& session, const Graph& graph) {
  CUDA_MEMCPY3D box;
  const GraphNode* seen = nullptr;  // most nodes are of the module of the one before
  for (const GraphNode& node : graph.nodes) {
    switch (static_cast<Op>(node.op)) {
      case Op::kLaunch:
        if (seen != nullptr && node.code == seen->code) break;
        seen = &node;
        if (session.modules().find_ready(node.launch.module) != node.code) return false;
        break;
      case Op::kRectCopy:
        if (resolve_copy(session, graph.context, node.copy, &box) != nullptr ||
            box.srcArray != node.box.srcArray || box.dstArray != node.box.dstArray) {
          return false;
        }
        break;
      case Op::kRectFill:
        if (check_fill(session, node.fill) != nullptr) return false;
        break;
      case Op::kStreamMemory:
        for (const wire::StreamMemoryArgs& args : node.operations) {
          if (check_memory_operation(session, args) != nullptr) return false;
        }
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace vgpu::server
