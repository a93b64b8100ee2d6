// User objects: they live as long as any graph that may use them.
// SPDX-License-Identifier: Apache-2.0
#include "graph_support.h"

namespace vgpu::conformance {
namespace {

class GraphObjectTest : public GraphKernelTest {
 protected:
  static void CUDA_CB end(void* counter) { ++*static_cast<int*>(counter); }
  // An object with one reference, which is the program's.
  static CUuserObject make(int* ended) {
    CUuserObject object = nullptr;
    EXPECT_OK(cuUserObjectCreate(&object, ended, end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
  }
  // An object with one reference, which is the graph's.
  static void give(CUgraph graph, int* ended) {
    EXPECT_OK(cuGraphRetainUserObject(graph, make(ended), 1, CU_GRAPH_USER_OBJECT_MOVE));
  }
  static CUgraphNode add_empty(CUgraph graph) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
    return node;
  }
};

TEST_F(GraphObjectTest, OfAGraphAndItsExecutable) {
  int ended = 0;
  CUuserObject object = nullptr;
  EXPECT_CU(cuUserObjectCreate(&object, &ended, end, 1, 0), CUDA_ERROR_INVALID_VALUE);
  object = make(&ended);
  CUgraphExec exec = nullptr;
  {
    GraphHandle graph;
    add_empty(graph);
    EXPECT_OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    EXPECT_OK(cuUserObjectRetain(object, 2));
    EXPECT_OK(cuUserObjectRelease(object, 2));
    EXPECT_CU(cuGraphReleaseUserObject(graph, object, 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
  EXPECT_EQ(ended, 0);  // the executable graph keeps it
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(ended, 1);
  EXPECT_CU(cuUserObjectRelease(object, 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(GraphObjectTest, Clones) {
  int ended = 0;
  CUgraph copy = nullptr;
  {
    GraphHandle graph;
    give(graph, &ended);
    ASSERT_OK(cuGraphClone(&copy, graph));
  }
  EXPECT_EQ(ended, 0);
  EXPECT_OK(cuGraphDestroy(copy));
  EXPECT_EQ(ended, 1);
}

TEST_F(GraphObjectTest, Children) {
  int ended = 0;
  GraphHandle outer;
  CUgraphNode child = nullptr;
  {
    GraphHandle inner;
    add_empty(inner);
    give(inner, &ended);
    ASSERT_OK(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
    EXPECT_CU(cuGraphAddChildGraphNode(nullptr, outer, nullptr, 0, inner),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(ended, 0);
  {
    ExecHandle exec(outer);
    EXPECT_OK(cuGraphDestroyNode(child));
    EXPECT_EQ(ended, 0);
  }
  EXPECT_EQ(ended, 1);
}

TEST_F(GraphObjectTest, ACapturedLaunch) {
  int ended = 0;
  const Stream stream;
  CUgraph captured = nullptr;
  {
    GraphHandle graph;
    give(graph, &ended);
    ExecHandle exec(graph);
    ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(cuGraphLaunch(exec, stream));
    ASSERT_OK(cuStreamEndCapture(stream, &captured));
  }
  EXPECT_EQ(ended, 0);
  EXPECT_OK(cuGraphDestroy(captured));
  EXPECT_EQ(ended, 1);
}

TEST_F(GraphObjectTest, UpdatesTakeThemOver) {
  int first_ended = 0, second_ended = 0, third_ended = 0;
  CUgraphExec exec = nullptr;
  {
    GraphHandle first, second;
    add_empty(first);
    add_empty(second);
    give(first, &first_ended);
    give(second, &second_ended);
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec, first, 0));
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_OK(cuGraphExecUpdate_v2(exec, second, &info));
    EXPECT_EQ(first_ended, 0);  // the graph that it came from is still there
  }
  EXPECT_EQ(first_ended, 1);
  EXPECT_EQ(second_ended, 0);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(second_ended, 1);

  GraphHandle outer;
  CUgraphNode child = nullptr;
  {
    GraphHandle inner, changed;
    add_empty(inner);
    add_empty(changed);
    give(changed, &third_ended);
    ASSERT_OK(cuGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec, outer, 0));
    EXPECT_OK(cuGraphExecChildGraphNodeSetParams(exec, child, changed));
  }
  EXPECT_EQ(third_ended, 0);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_EQ(third_ended, 1);
}

// The program has released a reference that was not its own.
TEST_F(GraphObjectTest, ReleasedTooOften) {
  int ended = 0;
  GraphHandle graph;
  const CUuserObject object = make(&ended);
  EXPECT_OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
  EXPECT_OK(cuUserObjectRelease(object, 1));
  EXPECT_EQ(ended, 1);
  CUgraph copy = nullptr;
  ASSERT_OK(cuGraphClone(&copy, graph));
  EXPECT_OK(cuGraphDestroy(copy));
  EXPECT_EQ(ended, 1);
}

}  // namespace
}  // namespace vgpu::conformance
