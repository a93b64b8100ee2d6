// Graphs: conditional handles and nodes, arguments that are none.
// SPDX-License-Identifier: Apache-2.0
#include "table.h"

namespace vgpu::fidelity {
namespace {

// A graph with a handle in it, as a row needs it; it ends with the row.
struct Made {
  explicit Made(World& world) : w(world) {
    (void)w.cu->cuGraphCreate(&graph, 0);
    (void)w.cu->cuGraphConditionalHandleCreate(&handle, graph, w.context, 0, 0);
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.size = 1;
    params.conditional.ctx = w.context;
  }
  ~Made() { (void)w.cu->cuGraphDestroy(graph); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  CUresult add(CUgraphConditionalNodeType type, unsigned size) {
    params.conditional.type = type;
    params.conditional.size = size;
    return w.cu->cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &params);
  }
  World& w;
  CUgraph graph = nullptr;
  CUgraphConditionalHandle handle = 0;
  CUgraphNode node = nullptr;
  CUgraphNodeParams params = {};
};

const Row kRows[] = {
    ROW(kFresh, kNotInit, kDocumented,
        cuGraphConditionalHandleCreate(&w.handle, World::garbage<CUgraph>(), nullptr, 0, 0)),
    ROW(kNoContext, kContext, kOurs,
        cuGraphConditionalHandleCreate(&w.handle, World::garbage<CUgraph>(), nullptr, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuGraphConditionalHandleCreate(&w.handle, World::garbage<CUgraph>(), w.context, 0, 0)),
    ROW(kReady, kValue, kDocumented,
        cuGraphConditionalHandleCreate(&w.handle, nullptr, w.context, 0, 0)),
    STEPS(kReady, kValue, kDocumented, "cuGraphConditionalHandleCreate(nullptr, …)",
          {
            Made made(w);
            return w.cu->cuGraphConditionalHandleCreate(nullptr, made.graph, w.context, 0, 0);
          }),
    STEPS(kReady, kValue, kDocumented, "cuGraphConditionalHandleCreate with flags 2",
          {
            Made made(w);
            return w.cu->cuGraphConditionalHandleCreate(&w.handle, made.graph, w.context, 0, 2);
          }),
    STEPS(kReady, kValue, kDocumented, "a WHILE node of two bodies",
          { return Made(w).add(CU_GRAPH_COND_TYPE_WHILE, 2); }),
    STEPS(kReady, kValue, kDocumented, "an IF node of three bodies",
          { return Made(w).add(CU_GRAPH_COND_TYPE_IF, 3); }),
    STEPS(kReady, kValue, kDocumented, "a SWITCH node of no body",
          { return Made(w).add(CU_GRAPH_COND_TYPE_SWITCH, 0); }),
    STEPS(kReady, kValue, kDocumented, "a node of no type that there is",
          { return Made(w).add(static_cast<CUgraphConditionalNodeType>(3), 1); }),
    STEPS(kReady, kValue, kOurs, "a node of a handle that is none",
          {
            Made made(w);
            made.params.conditional.handle = 0;
            return made.add(CU_GRAPH_COND_TYPE_IF, 1);
          }),
    STEPS(kReady, kValue, kDocumented, "a handle that no node has",
          {
            Made made(w);
            return w.cu->cuGraphInstantiateWithFlags(&w.x, made.graph, 0);
          }),
    STEPS(kReady, kNotSupported, kOurs, "cuGraphClone with a conditional node",
          {
            Made made(w);
            const CUresult r = made.add(CU_GRAPH_COND_TYPE_IF, 2);
            return r == kOk ? w.cu->cuGraphClone(&w.g, made.graph) : r;
          }),
    ROW(kFault, kIllegal, kDocumented,
        cuGraphConditionalHandleCreate(&w.handle, World::garbage<CUgraph>(), nullptr, 0, 0)),
    ROW(kForked, kNotInit, kOurs,
        cuGraphConditionalHandleCreate(&w.handle, World::garbage<CUgraph>(), nullptr, 0, 0)),
};

}  // namespace

const std::span<const Row> kConditionalRows = kRows;

}  // namespace vgpu::fidelity
