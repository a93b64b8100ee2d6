// Graphs as structures: nodes, edges, parameters, copies, text.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

using ::testing::HasSubstr;

class GraphTest : public GraphKernelTest {
 protected:
  static CUgraphNode add_empty(CUgraph graph, const Nodes& before) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddEmptyNode(&node, graph, before.data(), before.size()));
    return node;
  }
  static Nodes before(CUgraphNode node) {
    return neighbours(driver().cuGraphNodeGetDependencies, node);
  }
  static Nodes after(CUgraphNode node) {
    return neighbours(driver().cuGraphNodeGetDependentNodes, node);
  }

 private:
  static Nodes neighbours(CUresult (*get)(CUgraphNode, CUgraphNode*, size_t*), CUgraphNode node) {
    size_t count = 0;
    EXPECT_EQ(get(node, nullptr, &count), CUDA_SUCCESS);
    Nodes nodes(count);
    if (count != 0) {
      EXPECT_EQ(get(node, nodes.data(), &count), CUDA_SUCCESS);
    }
    return nodes;
  }
};

TEST_F(GraphTest, CreateAndDestroy) {
  CUgraph graph = nullptr;
  EXPECT_CU(cuGraphCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuGraphCreate(&graph, 0));
  size_t count = 99;
  EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 0U);
  EXPECT_CU(cuGraphGetNodes(graph, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphDestroy(graph));
  for (CUgraph wrong : {graph, CUgraph{nullptr}, garbage_handle<CUgraph>()}) {
    EXPECT_CU(cuGraphDestroy(wrong), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CU(cuGraphGetNodes(wrong, nullptr, &count), CUDA_ERROR_INVALID_VALUE);
    CUgraphNode node = nullptr;
    EXPECT_CU(cuGraphAddEmptyNode(&node, wrong, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_F(GraphTest, NodesAndEdges) {
  GraphHandle graph, other;
  const CUgraphNode a = add_empty(graph, {}), b = add_empty(graph, {a}), c = add_empty(graph, {a});
  const CUgraphNode d = add_empty(graph, {b, c});
  EXPECT_EQ(before(d), (Nodes{b, c}));
  EXPECT_EQ(after(a), (Nodes{b, c}));
  CUgraphNode roots[4] = {a, a, a, a};
  size_t count = 4;
  EXPECT_OK(cuGraphGetRootNodes(graph, roots, &count));
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(roots[0], a);
  EXPECT_EQ(roots[1], nullptr);  // places that are too many are cleared
  EXPECT_OK(cuGraphGetEdges(graph, nullptr, nullptr, &count));
  EXPECT_EQ(count, 4U);
  CUgraphNode from[4], to[4];
  EXPECT_OK(cuGraphGetEdges(graph, from, to, &count));
  std::set<std::pair<CUgraphNode, CUgraphNode>> edges;
  for (size_t i = 0; i < 4; ++i) edges.insert({from[i], to[i]});
  EXPECT_EQ(edges, (std::set<std::pair<CUgraphNode, CUgraphNode>>{{a, b}, {a, c}, {b, d}, {c, d}}));
  EXPECT_OK(cuGraphRemoveDependencies(graph, &c, &d, 1));
  EXPECT_CU(cuGraphRemoveDependencies(graph, &c, &d, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphAddDependencies(graph, &c, &d, 1));
  EXPECT_CU(cuGraphAddDependencies(graph, &c, &d, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphAddDependencies(graph, &c, &c, 1), CUDA_ERROR_INVALID_VALUE);
  const CUgraphNode from_twice[] = {b, b}, to_twice[] = {c, c};
  EXPECT_CU(cuGraphAddDependencies(graph, from_twice, to_twice, 2), CUDA_ERROR_INVALID_VALUE);
  const CUgraphNode foreign = add_empty(other, {});
  EXPECT_CU(cuGraphAddDependencies(graph, &foreign, &d, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode node = nullptr;
  EXPECT_CU(cuGraphAddEmptyNode(&node, graph, &foreign, 1), CUDA_ERROR_INVALID_VALUE);
  const CUgraphNode twice[] = {a, a};
  EXPECT_CU(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphDestroyNode(b));
  EXPECT_CU(cuGraphDestroyNode(b), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(before(d), (Nodes{c}));
  EXPECT_EQ(after(a), (Nodes{c}));
  EXPECT_EQ(count_nodes(graph), 3U);
}

TEST_F(GraphTest, ACircleIsFoundWhenItIsInstantiated) {
  GraphHandle graph;
  const CUgraphNode a = add_empty(graph, {}), b = add_empty(graph, {a});
  EXPECT_OK(cuGraphAddDependencies(graph, &b, &a, 1));
  CUgraphExec exec = nullptr;
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_CU(cuGraphInstantiateWithParams(&exec, graph, &params), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
}

TEST_F(GraphTest, EdgeData) {
  GraphHandle graph;
  const Words words(128);
  const CUgraphNode a = add_kernel(graph, {}, "fill", words.at(), 128, 1);
  const CUgraphNode b = add_kernel(graph, {}, "add", words.at(), 128, 1);
  const CUgraphNode c = add_empty(graph, {});
  CUgraphEdgeData data = {};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  EXPECT_OK(cuGraphAddDependencies_v2(graph, &a, &b, &data, 1));
  EXPECT_CU(cuGraphAddDependencies_v2(graph, &a, &c, &data, 1), CUDA_ERROR_INVALID_VALUE);
  CUgraphNode nodes[1];
  size_t count = 1;
  EXPECT_CU(cuGraphNodeGetDependencies(b, nodes, &count), CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData got = {};
  EXPECT_OK(cuGraphNodeGetDependencies_v2(b, nodes, &got, &count));
  EXPECT_EQ(got.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
}

TEST_F(GraphTest, KernelParameters) {
  GraphHandle graph;
  const Words words(100);
  const CUgraphNode node = add_kernel(graph, {}, "fill", words.at(), 100, 7);
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_OK(cuGraphNodeGetType(node, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  CUDA_KERNEL_NODE_PARAMS got = {};
  ASSERT_OK(cuGraphKernelNodeGetParams_v2(node, &got));
  EXPECT_EQ(got.func, function("fill"));
  EXPECT_EQ(got.blockDimX, 128U);
  ASSERT_NE(got.kernelParams, nullptr);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(got.kernelParams[0]), words.at());
  EXPECT_EQ(*static_cast<uint32_t*>(got.kernelParams[2]), 7U);
  uint32_t value = 9;
  void* changed[] = {got.kernelParams[0], got.kernelParams[1], &value};
  got.kernelParams = changed;
  EXPECT_OK(cuGraphKernelNodeSetParams_v2(node, &got));
  value = 0;  // the node has its own copy
  ASSERT_OK(cuGraphKernelNodeGetParams_v2(node, &got));
  EXPECT_EQ(*static_cast<uint32_t*>(got.kernelParams[2]), 9U);
  CUDA_KERNEL_NODE_PARAMS_v1 old = {};
  EXPECT_OK(cuGraphKernelNodeGetParams(node, &old));
  EXPECT_EQ(old.func, function("fill"));
  EXPECT_OK(cuGraphKernelNodeSetParams(node, &old));
  got.func = garbage_handle<CUfunction>();
  CUgraphNode bad = nullptr;
  EXPECT_CU(cuGraphAddKernelNode_v2(&bad, graph, nullptr, 0, &got), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuGraphAddKernelNode_v2(&bad, graph, nullptr, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  ASSERT_OK(cuGraphKernelNodeGetParams_v2(node, &got));
  got.blockDimX = 5000;
  EXPECT_CU(cuGraphKernelNodeSetParams_v2(node, &got), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphMemsetNodeGetParams(node, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, KernelAttributes) {
  GraphHandle graph;
  const Words words(100);
  const CUgraphNode a = add_kernel(graph, {}, "fill", words.at(), 100, 7);
  const CUgraphNode b = add_kernel(graph, {}, "fill", words.at(), 100, 7);
  CUkernelNodeAttrValue value = {};
  value.priority = -2;
  EXPECT_OK(cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  EXPECT_OK(cuGraphKernelNodeCopyAttributes(b, a));
  value = {};
  EXPECT_OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
  EXPECT_EQ(value.priority, -2);
  EXPECT_OK(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
  EXPECT_EQ(value.cooperative, 0);
  EXPECT_CU(cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphKernelNodeCopyAttributes(b, add_empty(graph, {})), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, ParametersOfCopiesAndFills) {
  GraphHandle graph;
  const Words words(100), more(100);
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 100, 3);
  CUDA_MEMSET_NODE_PARAMS params = {};
  EXPECT_OK(cuGraphMemsetNodeGetParams(fill, &params));
  EXPECT_EQ(params.dst, words.at());
  EXPECT_EQ(params.width, 100U);
  params.value = 4;
  EXPECT_OK(cuGraphMemsetNodeSetParams(fill, &params));
  params.elementSize = 3;
  EXPECT_CU(cuGraphMemsetNodeSetParams(fill, &params), CUDA_ERROR_INVALID_VALUE);
  params.elementSize = 4;
  params.dst = kNowhere;
  EXPECT_CU(cuGraphMemsetNodeSetParams(fill, &params), CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMCPY3D box =
      copy_params(CU_MEMORYTYPE_DEVICE, more.at(), CU_MEMORYTYPE_DEVICE, words.at(), 400);
  const CUgraphNode copy = add_copy(graph, {fill}, box);
  CUDA_MEMCPY3D got = {};
  EXPECT_OK(cuGraphMemcpyNodeGetParams(copy, &got));
  EXPECT_EQ(got.dstDevice, more.at());
  EXPECT_EQ(got.WidthInBytes, 400U);
  got.WidthInBytes = 1u << 30;
  EXPECT_CU(cuGraphMemcpyNodeSetParams(copy, &got), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphMemcpyNodeGetParams(fill, &got), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, ClonesAndChildren) {
  GraphHandle graph;
  const CUgraphNode a = add_empty(graph, {}), b = add_empty(graph, {a});
  CUgraph copy = nullptr;
  ASSERT_OK(cuGraphClone(&copy, graph));
  const GraphHandle clone(copy);
  CUgraphNode twin = nullptr;
  EXPECT_OK(cuGraphNodeFindInClone(&twin, b, clone));
  EXPECT_NE(twin, b);
  EXPECT_EQ(before(twin).size(), 1U);
  EXPECT_CU(cuGraphNodeFindInClone(&twin, b, graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphDestroyNode(a));
  EXPECT_EQ(count_nodes(clone), 2U);  // the copy is its own

  GraphHandle parent;
  CUgraphNode node = nullptr;
  EXPECT_OK(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, clone));
  CUgraph child = nullptr;
  EXPECT_OK(cuGraphChildGraphNodeGetGraph(node, &child));
  EXPECT_EQ(count_nodes(child), 2U);
  EXPECT_CU(cuGraphDestroy(child), CUDA_ERROR_INVALID_VALUE);  // it is its node's
  add_empty(child, {});
  EXPECT_EQ(count_nodes(child), 3U);
  EXPECT_EQ(count_nodes(clone), 2U);
  EXPECT_CU(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, garbage_handle<CUgraph>()),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, AddNodeOfAnyType) {
  GraphHandle graph;
  const Words words(64);
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  params.memset.dst = words.at();
  params.memset.value = 5;
  params.memset.elementSize = 4;
  params.memset.width = 64;
  params.memset.height = 1;
  CUgraphNode node = nullptr;
  EXPECT_OK(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &params));
  params.memset.value = 6;
  EXPECT_OK(cuGraphNodeSetParams(node, &params));
  CUDA_MEMSET_NODE_PARAMS got = {};
  EXPECT_OK(cuGraphMemsetNodeGetParams(node, &got));
  EXPECT_EQ(got.value, 6U);
  params.type = static_cast<CUgraphNodeType>(77);
  EXPECT_CU(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &params),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, EventNodes) {
  GraphHandle graph;
  const Event first, second;
  CUgraphNode record = nullptr, wait = nullptr;
  EXPECT_OK(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, first));
  EXPECT_OK(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, first));
  CUevent got = nullptr;
  EXPECT_OK(cuGraphEventRecordNodeGetEvent(record, &got));
  EXPECT_EQ(got, first);
  EXPECT_OK(cuGraphEventWaitNodeSetEvent(wait, second));
  EXPECT_OK(cuGraphEventWaitNodeGetEvent(wait, &got));
  EXPECT_EQ(got, second);
  EXPECT_CU(cuGraphEventWaitNodeGetEvent(record, &got), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphAddEventRecordNode(&record, graph, nullptr, 0, garbage_handle<CUevent>()),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphTest, DotText) {
  GraphHandle graph;
  const Words words(64);
  const CUgraphNode fill = add_fill(graph, {}, words.at(), 64, 1);
  add_kernel(graph, {fill}, "add", words.at(), 64, 1);
  const std::string path = temporary_path("graph.dot");
  EXPECT_OK(cuGraphDebugDotPrint(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, HasSubstr("digraph"));
  EXPECT_THAT(text, HasSubstr("MEMSET"));
  EXPECT_THAT(text, HasSubstr("add"));
  EXPECT_THAT(text, HasSubstr("->"));
  ::unlink(path.c_str());
  EXPECT_CU(cuGraphDebugDotPrint(graph, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphDebugDotPrint(graph, "/nowhere/at/all", 0), CUDA_ERROR_OPERATING_SYSTEM);
}

}  // namespace
}  // namespace vgpu::conformance
