// Graphs: made by a helper, launched as one piece of work.
// SPDX-License-Identifier: Apache-2.0
#include "server/graph.h"

#include "op.h"
#include "protocol/wire/graph_nodes.h"
#include "server/peer_event.h"
#include "server/work.h"
#include "server_handlers.h"

namespace vgpu::server {
namespace {

// Those that could not be made: the guest gives such an id away again.
void forget_failed(HandleTable<GraphEntry>* graphs) {
  std::vector<uint64_t> ids;
  graphs->for_each([&](uint64_t id, GraphEntry& entry) {
    // acquire: partner is the helper's release once it is through.
    const bool over = !entry.graph->making.load(std::memory_order_acquire);
    if (over && !entry.graph->ready.load(std::memory_order_acquire)) ids.push_back(id);
  });
  for (const uint64_t id : ids) graphs->take(id);
}

Graph* find_ready(Session& session, uint64_t id) {
  GraphEntry* entry = session.graphs().find(id);
  // acquire: partner is the helper's release once the graph is made.
  if (entry == nullptr || !entry->graph->ready.load(std::memory_order_acquire)) return nullptr;
  return entry->graph->context == session.bound() ? entry->graph.get() : nullptr;
}

// A launch that still waits in a lane keeps it.
void end_native(Graph* graph) {
  if (graph->native != nullptr && graph->last.passed()) graph->native->end();
}

// How much of a stream's queue a launch takes: a driver cuts a large graph into several pieces.
constexpr uint32_t kNodesPerWeight = 16;

// What the graph waits for must be with the driver before it is launched.
CUresult wait_for_records(Session& session, Stream* stream, const Record& record,
                          const Graph& graph) {
  CUresult result = CUDA_SUCCESS;
  for (const GraphNode& node : graph.nodes) {
    if (node.op != static_cast<uint16_t>(Op::kStreamWaitEvent)) continue;
    // What another process has recorded is waited for ahead of the whole graph: the number to wait
    // for is another in each launch.
    if (result == CUDA_SUCCESS && node.event->peer != nullptr)
      result = wait_for_peer(session, stream, node.event->peer, record.op());
    if (result == CUDA_SUCCESS && !node.event->recorded.passed()) {
      result =
          session.issue(stream, record.op(),
                        [](const DriverTable&, CUstream, const std::byte*) { return CUDA_SUCCESS; },
                        {.weight = 0, .after = node.event->recorded});
    }
  }
  return result;
}

// Behind everything that was launched of a graph of the bound context.
Marks marks_behind(Session& session, const Graph& graph) {
  Marks marks = graph.after;
  if (graph.last_stream == 0) return marks;
  MarkRef mark;
  Stream* stream = session.find_stream(graph.last_stream);
  const CUresult result = stream != nullptr ? session.mark(stream, &mark)
                                            : session.mark_context(session.bound(), &marks);
  if (session.noted(result, session.bound()) == CUDA_SUCCESS && mark != nullptr)
    marks.push_back(std::move(mark));
  return marks;
}

// A new graph of the driver's in place of the one that was launched so far. There is none while a
// node names what is gone, which the driver would refuse: it may be given something else before
// the next launch, which then makes the graph.
CUresult rebuild(Session& session, Graph* graph) {
  std::shared_ptr<NativeGraph> old = std::exchange(graph->native, nullptr);
  CUresult result = CUDA_SUCCESS;
  if (still_whole(session, *graph)) result = build(session.driver(), *graph, &graph->native);
  if (result != CUDA_SUCCESS) return result;
  graph->after = marks_behind(session, *graph);
  graph->last_stream = 0;  // until the next launch nothing more comes
  session.let_go(graph->after, std::move(old));
  return result;
}

// The driver orders the launches of one graph; those of the graph that was there before a change
// only we know.
CUresult wait_for_earlier(Session& session, Stream* stream, const Record& record, Graph* graph) {
  CUresult result = CUDA_SUCCESS;
  for (const MarkRef& mark : graph->after) {
    if (result != CUDA_SUCCESS || session.past(*mark)) continue;
    result = session.issue(stream, record.op(),
                           [mark](const DriverTable& driver, CUstream handle, const std::byte*) {
                             return driver.cuStreamWaitEvent(handle, mark->event, 0);
                           },
                           {.after = mark->recorded});
  }
  graph->after.clear();
  return result;
}

}  // namespace

bool handle_GraphInstantiate(Session& session, const wire::GraphInstantiateArgs& args,
                             const Record& record) {
  if (session.bound() == nullptr) return session.malformed(record, "no context is bound");
  if (record.reply() == protocol::kNoReply) return session.malformed(record, "no reply slot");
  if (args.nodes > protocol::kGraphNodesMax ||
      (args.flags & ~uint32_t{CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY}) != 0) {
    return session.malformed(record, "size or flags of a graph");
  }
  ImageBytes bytes;
  if (args.nodes != 0 && !session.modules().take_upload(args.upload, &bytes))
    return session.malformed(record, "no such upload");
  auto graph = std::make_shared<Graph>();
  if (!find_source(session, args.source, &graph->source))
    return session.malformed(record, "no such source of handles");
  graph->context = session.bound();
  graph->flags = args.flags;
  std::vector<uint32_t> all;
  const char* why = nullptr;
  const NodesResult read = read_nodes(session, bytes.bytes(), args.nodes, false,
                                      graph->source.get(), graph.get(), &all, &why);
  if (read == NodesResult::kMalformed) return session.malformed(record, why);
  if (read == NodesResult::kStale)
    return session.complete(record, CUDA_ERROR_INVALID_VALUE, nullptr, 0);
  forget_failed(&session.graphs());
  if (session.graphs().insert(args.graph, std::make_unique<GraphEntry>(GraphEntry{graph})) ==
      nullptr) {
    return session.malformed(record, "graph id");
  }
  session.pool().post([&session, graph, reply = record.reply()] {
    CUresult result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (const Rundown::Use use(&graph->context->use); use) {
      (void)session.driver().cuCtxSetCurrent(graph->context->handle);
      result = session.noted(build(session.driver(), *graph, &graph->native), graph->context);
    }
    // release: partner is the consumer's acquire before it uses the graph.
    graph->ready.store(result == CUDA_SUCCESS, std::memory_order_release);
    graph->making.store(false, std::memory_order_release);  // before the answer: see forget_failed
    session.channel().replies().complete(reply, result);
  });
  return true;
}

bool handle_GraphUpdate(Session& session, const wire::GraphUpdateArgs& args, const Record& record) {
  Graph* graph = find_ready(session, args.graph);
  if (graph == nullptr) return session.malformed(record, "unknown graph");
  std::shared_ptr<GraphSource> source;
  if (!find_source(session, args.source, &source))
    return session.malformed(record, "no such source of handles");
  ImageBytes bytes;
  if (args.nodes == 0 || !session.modules().take_upload(args.upload, &bytes))
    return session.malformed(record, "no such upload");
  std::vector<uint32_t> changed;
  const char* why = nullptr;
  const NodesResult read =
      read_nodes(session, bytes.bytes(), args.nodes, true, source.get(), graph, &changed, &why);
  if (read == NodesResult::kMalformed) return session.malformed(record, why);
  if (read == NodesResult::kStale)  // another thread has ended it meanwhile: as if it were used
    return session.complete(record, CUDA_ERROR_ILLEGAL_ADDRESS, nullptr, 0);
  // Launches that wait in a lane keep the graph as it was.
  const bool in_place = graph->last.passed() && source == graph->source;
  graph->source = source;
  CUresult result = in_place ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
  for (const uint32_t number : changed) {
    if (result == CUDA_SUCCESS)
      result = change(session.driver(), *graph, number, graph->native.get());
  }
  if (result != CUDA_SUCCESS) {
    if (source != nullptr) end_native(graph);  // there may be one of it only
    result = rebuild(session, graph);
  }
  return session.complete(record, result, nullptr, 0);
}

bool handle_GraphLaunch(Session& session, const wire::GraphLaunchArgs& args, const Record& record) {
  Stream* stream = session.find_stream(args.stream);
  if (stream == nullptr) return session.malformed(record, "unknown stream");
  Graph* graph = find_ready(session, args.graph);
  if (graph == nullptr) return session.malformed(record, "unknown graph");
  // What has gone since is as memory that a kernel finds gone.
  if (!still_whole(session, *graph))
    return session.complete(record, CUDA_ERROR_ILLEGAL_ADDRESS, nullptr, 0);
  if (graph->native == nullptr) [[unlikely]] {
    if (const CUresult result = rebuild(session, graph); result != CUDA_SUCCESS)
      return session.complete(record, result, nullptr, 0);
  }
  const auto nodes = static_cast<uint32_t>(graph->nodes.size());
  const uint32_t kernels = graph->native->kernels;
  session.figures().kernels(kernels);
  CUresult waits = wait_for_records(session, stream, record, *graph);
  if (waits == CUDA_SUCCESS) waits = wait_for_earlier(session, stream, record, graph);
  if (waits != CUDA_SUCCESS) return session.complete(record, waits, nullptr, 0);
  LanePoint place;
  const bool goes_on = session.submit(
      stream, record,
      [&session, native = graph->native, kernels](const DriverTable& driver, CUstream handle,
                                                  const std::byte*) {
        return session.watchdog().watch(native->context, handle, kernels,
                                        [&] { return driver.cuGraphLaunch(native->exec, handle); });
      },
      {.weight = 1 + nodes / kNodesPerWeight,
       .after = graph->last,
       .place = &place,
       .work = {kUnknownCost, args.graph}});
  graph->last = place;
  graph->last_stream = args.stream;
  for (const GraphNode& node : graph->nodes) {
    if (node.op != static_cast<uint16_t>(Op::kEventRecord)) continue;
    node.event->recorded = place;
    ++node.event->records;
    if (goes_on && node.event->peer != nullptr) announce(session, node.event, nullptr);
  }
  // Asked for where other processes look at the events.
  return goes_on && session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

bool handle_GraphDestroy(Session& session, const wire::GraphDestroyArgs& args,
                         const Record& record) {
  Graph* graph = find_ready(session, args.graph);
  if (graph == nullptr) return session.malformed(record, "unknown graph");
  if (graph->source != nullptr) end_native(graph);  // it may be made again at once
  Marks marks = marks_behind(session, *graph);
  session.let_go(std::move(marks), std::move(session.graphs().take(args.graph)->graph));
  return session.complete(record, CUDA_SUCCESS, nullptr, 0);
}

}  // namespace vgpu::server
