// Graphs: handles, structure, executables.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

constexpr auto kMove = CU_GRAPH_USER_OBJECT_MOVE;

CUgraph no_graph() { return World::garbage<CUgraph>(); }
CUgraphNode no_node() { return World::garbage<CUgraphNode>(); }
CUgraphExec no_exec() { return World::garbage<CUgraphExec>(); }
CUuserObject no_object() { return World::garbage<CUuserObject>(); }

// What rows need of a graph with one empty node, an executable copy, and outputs.
struct Made {
  CUgraph graph = nullptr, g = nullptr;
  CUgraphNode node = nullptr, n = nullptr;
  CUgraphExec exec = nullptr, e = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
};

template <typename Use>
CUresult with_graph(World& w, Use&& use) {
  Made made;
  CUresult result = w.cu->cuGraphCreate(&made.graph, 0);
  if (result == kOk) result = w.cu->cuGraphAddEmptyNode(&made.node, made.graph, nullptr, 0);
  if (result == kOk) result = w.cu->cuGraphInstantiateWithFlags(&made.exec, made.graph, 0);
  if (result == kOk) result = use(made);
  if (made.exec != nullptr) (void)w.cu->cuGraphExecDestroy(made.exec);
  if (made.graph != nullptr) (void)w.cu->cuGraphDestroy(made.graph);
  return result;
}
#define GRAPH(want, source, name, call)                                                      \
  STEPS(kReady, want, source, name, {                                                        \
    return with_graph(w, [&w]([[maybe_unused]] Made& m) -> CUresult { return w.cu->call; }); \
  })

CUgraph* graph_out(World& w) { return reinterpret_cast<CUgraph*>(&w.v); }
CUgraphNode* node_out(World& w) { return reinterpret_cast<CUgraphNode*>(&w.v); }
CUgraphExec* exec_out(World& w) { return reinterpret_cast<CUgraphExec*>(&w.v); }

void CUDA_CB nothing(void*) {}

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented, cuGraphCreate(graph_out(w), 0)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphDestroy(no_graph())),
    ROW(kFresh, kNotInit, kDocumented, cuGraphAddEmptyNode(node_out(w), no_graph(), nullptr, 0)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphGetNodes(no_graph(), nullptr, &w.size)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphInstantiateWithFlags(exec_out(w), no_graph(), 0)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphLaunch(no_exec(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphExecDestroy(no_exec())),
    ROW(kFresh, kNotInit, kDocumented, cuUserObjectRetain(no_object(), 1)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphClone(nullptr, no_graph())),
    ROW(kFresh, kNotInit, kDocumented, cuGraphNodeGetType(no_node(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphDebugDotPrint(no_graph(), nullptr, 0)),
    ROW(kFresh, kNotInit, kDocumented,
        cuGraphAddKernelNode_v2(nullptr, no_graph(), nullptr, 0, nullptr)),
    ROW(kFresh, kNotInit, kDocumented,
        cuGraphAddMemAllocNode(nullptr, nullptr, nullptr, 0, nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphKernelNodeSetParams_v2(no_node(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphInstantiateWithFlags(nullptr, no_graph(), 0)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphInstantiateWithParams(nullptr, no_graph(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphExecUpdate_v2(no_exec(), no_graph(), nullptr)),
    ROW(kFresh, kNotInit, kDocumented, cuGraphExecGetFlags(no_exec(), nullptr)),
    ROW(kNoContext, kOk, kDocumented, cuGraphCreate(graph_out(w), 0)),
    ROW(kNoContext, kContext, kDocumented, cuGraphLaunch(no_exec(), nullptr)),
    ROW(kReady, kValue, kDocumented, cuGraphCreate(nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuGraphCreate(graph_out(w), 1)),
    ROW(kReady, kValue, kDocumented, cuGraphDestroy(nullptr)),
    ROW(kReady, kValue, kOurs, cuGraphDestroy(no_graph())),
    ROW(kReady, kValue, kDocumented, cuGraphClone(graph_out(w), nullptr)),
    ROW(kReady, kValue, kOurs, cuGraphClone(graph_out(w), no_graph())),
    ROW(kReady, kValue, kOurs, cuGraphGetNodes(no_graph(), nullptr, &w.size)),
    ROW(kReady, kValue, kOurs, cuGraphGetRootNodes(no_graph(), nullptr, &w.size)),
    ROW(kReady, kValue, kOurs, cuGraphGetEdges(no_graph(), nullptr, nullptr, &w.size)),
    ROW(kReady, kValue, kOurs, cuGraphNodeGetDependencies(no_node(), nullptr, &w.size)),
    ROW(kReady, kValue, kOurs, cuGraphDestroyNode(no_node())),
    ROW(kReady, kValue, kDocumented, cuGraphDestroyNode(nullptr)),
    ROW(kReady, kValue, kOurs, cuGraphAddEmptyNode(node_out(w), no_graph(), nullptr, 0)),
    ROW(kReady, kValue, kDocumented, cuGraphInstantiateWithFlags(exec_out(w), nullptr, 0)),
    ROW(kReady, kValue, kOurs, cuGraphInstantiateWithFlags(exec_out(w), no_graph(), 0)),
    ROW(kReady, kValue, kDocumented, cuGraphLaunch(nullptr, w.stream)),
    ROW(kReady, kValue, kOurs, cuGraphLaunch(no_exec(), w.stream)),
    ROW(kReady, kValue, kDocumented, cuGraphExecDestroy(nullptr)),
    ROW(kReady, kValue, kOurs, cuGraphExecDestroy(no_exec())),
    ROW(kReady, kValue, kDocumented, cuGraphDebugDotPrint(nullptr, "/dev/null", 0)),
    ROW(kReady, kValue, kDocumented,
        cuUserObjectCreate(reinterpret_cast<CUuserObject*>(&w.v), nullptr, nothing, 1, 0)),
    ROW(kReady, kValue, kDocumented,
        cuUserObjectCreate(nullptr, nullptr, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)),
    ROW(kReady, kValue, kDocumented,
        cuUserObjectCreate(reinterpret_cast<CUuserObject*>(&w.v), nullptr, nothing, 0,
                           CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)),
    ROW(kReady, kValue, kOurs, cuUserObjectRetain(no_object(), 1)),
    ROW(kReady, kValue, kOurs, cuUserObjectRelease(no_object(), 1)),
    GRAPH(kValue, kDocumented, "cuGraphAddEmptyNode without a place",
          cuGraphAddEmptyNode(nullptr, m.graph, nullptr, 0)),
    GRAPH(kValue, kDocumented, "cuGraphAddEmptyNode behind nodes that are not there",
          cuGraphAddEmptyNode(&m.n, m.graph, nullptr, 1)),
    GRAPH(kValue, kDocumented, "cuGraphGetNodes without a count",
          cuGraphGetNodes(m.graph, nullptr, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphGetEdges with one place only",
          cuGraphGetEdges(m.graph, &m.n, nullptr, &w.size)),
    GRAPH(kValue, kDocumented, "cuGraphNodeGetType without a place",
          cuGraphNodeGetType(m.node, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphAddDependencies of a node to itself",
          cuGraphAddDependencies(m.graph, &m.node, &m.node, 1)),
    GRAPH(kOk, kDocumented, "cuGraphAddDependencies of none",
          cuGraphAddDependencies(m.graph, nullptr, nullptr, 0)),
    GRAPH(kValue, kDocumented, "cuGraphRemoveDependencies that are none",
          cuGraphRemoveDependencies(m.graph, &m.node, &m.node, 1)),
    GRAPH(kValue, kDocumented, "cuGraphKernelNodeGetParams of an empty node",
          cuGraphKernelNodeGetParams_v2(m.node, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphAddKernelNode without parameters",
          cuGraphAddKernelNode_v2(&m.n, m.graph, nullptr, 0, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphAddMemcpyNode without parameters",
          cuGraphAddMemcpyNode(&m.n, m.graph, nullptr, 0, nullptr, w.context)),
    GRAPH(kValue, kDocumented, "cuGraphAddMemsetNode without parameters",
          cuGraphAddMemsetNode(&m.n, m.graph, nullptr, 0, nullptr, w.context)),
    GRAPH(kValue, kDocumented, "cuGraphAddHostNode without parameters",
          cuGraphAddHostNode(&m.n, m.graph, nullptr, 0, nullptr)),
    GRAPH(kValue, kOurs, "cuGraphAddEventRecordNode of no event",
          cuGraphAddEventRecordNode(&m.n, m.graph, nullptr, 0, w.stale_event)),
    GRAPH(kValue, kDocumented, "cuGraphAddChildGraphNode of no graph",
          cuGraphAddChildGraphNode(&m.n, m.graph, nullptr, 0, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphAddMemFreeNode of memory of no graph",
          cuGraphAddMemFreeNode(&m.n, m.graph, nullptr, 0, w.memory)),
    GRAPH(kValue, kDocumented, "cuGraphInstantiate without a place",
          cuGraphInstantiateWithFlags(nullptr, m.graph, 0)),
    GRAPH(kValue, kDocumented, "cuGraphInstantiate with flags that are none",
          cuGraphInstantiateWithFlags(&m.e, m.graph, 1u << 20)),
    GRAPH(kHandle, kOurs, "cuGraphLaunch in a stream that is gone",
          cuGraphLaunch(m.exec, w.stale_stream)),
    GRAPH(kHandle, kOurs, "cuGraphUpload in a stream that is gone",
          cuGraphUpload(m.exec, w.stale_stream)),
    GRAPH(kValue, kDocumented, "cuGraphExecUpdate without a place for the result",
          cuGraphExecUpdate_v2(m.exec, m.graph, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphNodeSetEnabled of an empty node",
          cuGraphNodeSetEnabled(m.exec, m.node, 0)),
    GRAPH(kValue, kOurs, "cuGraphExecKernelNodeSetParams of an empty node",
          cuGraphExecKernelNodeSetParams_v2(m.exec, m.node, nullptr)),
    GRAPH(kValue, kDocumented, "cuGraphRetainUserObject of none",
          cuGraphRetainUserObject(m.graph, nullptr, 1, kMove)),
    GRAPH(kValue, kDocumented, "cuGraphReleaseUserObject that it does not have",
          cuGraphReleaseUserObject(m.graph, no_object(), 1)),
    ROW(kReady, kDevice, kDocumented,
        cuDeviceGetGraphMemAttribute(99, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &w.ull)),
    ROW(kReady, kValue, kDocumented,
        cuDeviceGetGraphMemAttribute(w.device, static_cast<CUgraphMem_attribute>(99), &w.ull)),
    ROW(kReady, kValue, kDocumented,
        cuDeviceSetGraphMemAttribute(w.device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &w.ull)),
    ROW(kReady, kDevice, kDocumented, cuDeviceGraphMemTrim(99)),
    ROW(kForked, kNotInit, kOurs, cuGraphCreate(graph_out(w), 0)),
    ROW(kForked, kNotInit, kOurs, cuGraphLaunch(no_exec(), nullptr)),
};

}  // namespace

const std::span<const Row> kGraphRows = kRows;

}  // namespace vgpu::fidelity
