// Conditional nodes: what runs, how often, and what may not be done with such graphs.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <numeric>

#include "graph_support.h"

namespace vgpu::conformance {
namespace {

// count_down(counter, handle): --*counter, and the condition is whether anything is left.
// set(value, handle): the condition is *value.
constexpr const char* kConditionKernels = R"(
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry count_down(.param .u64 counter, .param .u64 handle)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [counter];
  ld.param.u64 %rd1, [handle];
  cvta.to.global.u64 %rd2, %rd0;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p, %r3, 0;
  @%p bra DONE;
  ld.global.u32 %r0, [%rd2];
  sub.u32 %r1, %r0, 1;
  st.global.u32 [%rd2], %r1;
  { .param .b64 a; .param .b32 b;
    st.param.b64 [a], %rd1; st.param.b32 [b], %r1;
    call cudaGraphSetConditional, (a, b); }
DONE:
  ret;
}
.visible .entry set(.param .u64 value, .param .u64 handle)
{
  .reg .b32 %r<2>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [value];
  ld.param.u64 %rd1, [handle];
  cvta.to.global.u64 %rd2, %rd0;
  ld.global.u32 %r0, [%rd2];
  { .param .b64 a; .param .b32 b;
    st.param.b64 [a], %rd1; st.param.b32 [b], %r0;
    call cudaGraphSetConditional, (a, b); }
  ret;
}
)";

class GraphConditionalTest : public GraphKernelTest {
 protected:
  void SetUp() override {
    GraphKernelTest::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_OK(cuModuleLoadData(&conditions_, ptx_module(kConditionKernels).c_str()));
  }
  void TearDown() override {
    if (conditions_ != nullptr) EXPECT_OK(cuModuleUnload(conditions_));
    GraphKernelTest::TearDown();
  }
  CUgraphConditionalHandle make_handle(CUgraph graph, unsigned value = 0,
                                       unsigned flags = CU_GRAPH_COND_ASSIGN_DEFAULT) {
    CUgraphConditionalHandle handle = 0;
    EXPECT_OK(cuGraphConditionalHandleCreate(&handle, graph, context_, value, flags));
    return handle;
  }
  CUgraphNodeParams conditional(CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                unsigned size) const {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = type;
    params.conditional.size = size;
    params.conditional.ctx = context_;
    return params;
  }
  struct Branch {
    CUgraphNode node = nullptr;
    CUgraph* bodies = nullptr;
  };
  Branch add_branch(CUgraph graph, const Nodes& before, CUgraphConditionalHandle handle,
                    CUgraphConditionalNodeType type, unsigned size) {
    CUgraphNodeParams params = conditional(handle, type, size);
    Branch made;
    EXPECT_OK(cuGraphAddNode_v2(&made.node, graph, before.data(), nullptr, before.size(), &params));
    made.bodies = params.conditional.phGraph_out;
    return made;
  }
  // A kernel of the above.
  CUgraphNode add_setter(CUgraph graph, const Nodes& before, const char* name, CUdeviceptr word,
                         CUgraphConditionalHandle handle) {
    void* values[] = {&word, &handle};
    CUDA_KERNEL_NODE_PARAMS params = {};
    EXPECT_OK(cuModuleGetFunction(&params.func, conditions_, name));
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = values;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode_v2(&node, graph, before.data(), before.size(), &params));
    return node;
  }
  void run(CUgraphExec exec, int times = 1) {
    const Stream stream;
    for (int i = 0; i < times; ++i) EXPECT_OK(cuGraphLaunch(exec, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  CUmodule conditions_ = nullptr;
};

std::vector<uint32_t> all(size_t n, uint32_t value) { return std::vector<uint32_t>(n, value); }

TEST_F(GraphConditionalTest, LoopsAsLongAsTheConditionHolds) {
  GraphHandle graph;
  const Words left(1), work(256), after(256);
  const CUgraphConditionalHandle handle = make_handle(graph, 1);
  const CUgraphNode first = add_fill(graph, {}, left.at(), 1, 10);
  const CUgraphNode zero = add_fill(graph, {}, work.at(), 256, 0);
  const Branch loop = add_branch(graph, {first, zero}, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  const CUgraphNode step = add_kernel(loop.bodies[0], {}, "add", work.at(), 256, 3);
  add_setter(loop.bodies[0], {step}, "count_down", left.at(), handle);
  add_copy(graph, {loop.node},
           copy_params(CU_MEMORYTYPE_DEVICE, after.at(), CU_MEMORYTYPE_DEVICE, work.at(), 1024));
  ExecHandle exec(graph);
  run(exec, 3);
  EXPECT_EQ(left.read(), all(1, 0));
  EXPECT_EQ(after.read(), all(256, 30));
}

TEST_F(GraphConditionalTest, DefaultsAreForEachLaunch) {
  GraphHandle never, always;
  const Words words(2);
  words.write({0, 0});
  const CUgraphConditionalHandle no = make_handle(never, 0), yes = make_handle(always, 7);
  const Branch skipped = add_branch(never, {}, no, CU_GRAPH_COND_TYPE_IF, 1);
  add_kernel(skipped.bodies[0], {}, "add", words.at(0), 1, 1);
  const Branch taken = add_branch(always, {}, yes, CU_GRAPH_COND_TYPE_IF, 1);
  add_kernel(taken.bodies[0], {}, "add", words.at(1), 1, 1);
  ExecHandle not_run(never), is_run(always);
  run(not_run, 4);
  run(is_run, 4);
  EXPECT_EQ(words.read(), (std::vector<uint32_t>{0, 4}));
}

TEST_F(GraphConditionalTest, ElseAndSwitch) {
  GraphHandle graph;
  const Words choice(1), seen(5);
  const CUgraphConditionalHandle which = make_handle(graph, 0, 0), number = make_handle(graph);
  const CUgraphNode set_if = add_setter(graph, {}, "set", choice.at(), which);
  const CUgraphNode set_switch = add_setter(graph, {}, "set", choice.at(), number);
  const Branch branch = add_branch(graph, {set_if}, which, CU_GRAPH_COND_TYPE_IF, 2);
  add_kernel(branch.bodies[0], {}, "add", seen.at(0), 1, 1);
  add_kernel(branch.bodies[1], {}, "add", seen.at(1), 1, 1);
  const Branch cases = add_branch(graph, {set_switch}, number, CU_GRAPH_COND_TYPE_SWITCH, 3);
  for (unsigned i = 0; i < 3; ++i) add_kernel(cases.bodies[i], {}, "add", seen.at(2 + i), 1, 1);
  ExecHandle exec(graph);
  seen.write({0, 0, 0, 0, 0});
  for (const uint32_t value : {0U, 1U, 2U, 2U, 3U, 0xffffffffU}) {
    choice.write({value});
    run(exec);
  }
  EXPECT_EQ(seen.read(), (std::vector<uint32_t>{5, 1, 1, 1, 2}));
}

TEST_F(GraphConditionalTest, LoopsInLoops) {
  GraphHandle graph;
  const Words outer_left(1), inner_left(1), count(1);
  const CUgraphConditionalHandle outer = make_handle(graph, 1), inner = make_handle(graph, 0, 0);
  const CUgraphNode begin = add_fill(graph, {}, outer_left.at(), 1, 5);
  const CUgraphNode zero = add_fill(graph, {}, count.at(), 1, 0);
  const Branch around = add_branch(graph, {begin, zero}, outer, CU_GRAPH_COND_TYPE_WHILE, 1);
  CUgraph body = around.bodies[0];
  const CUgraphNode again = add_fill(body, {}, inner_left.at(), 1, 4);
  const CUgraphNode start = add_setter(body, {again}, "set", inner_left.at(), inner);
  const Branch within = add_branch(body, {start}, inner, CU_GRAPH_COND_TYPE_WHILE, 1);
  const CUgraphNode step = add_kernel(within.bodies[0], {}, "add", count.at(), 1, 1);
  add_setter(within.bodies[0], {step}, "count_down", inner_left.at(), inner);
  add_setter(body, {within.node}, "count_down", outer_left.at(), outer);
  ExecHandle exec(graph);
  run(exec, 2);
  EXPECT_EQ(count.read(), all(1, 20));
}

TEST_F(GraphConditionalTest, BodiesWithChildGraphsAndBranches) {
  GraphHandle graph, child;
  const Words left(1), words(40 * 64);
  const CUgraphNode one = add_kernel(child, {}, "add", words.at(), 64, 1);
  add_kernel(child, {one}, "add", words.at(), 64, 1);
  const CUgraphConditionalHandle handle = make_handle(graph, 1);
  const CUgraphNode first = add_fill(graph, {}, left.at(), 1, 3);
  const CUgraphNode zero = add_fill(graph, {}, words.at(), 40 * 64, 0);
  const Branch loop = add_branch(graph, {first, zero}, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  CUgraphNode inside = nullptr;
  EXPECT_OK(cuGraphAddChildGraphNode(&inside, loop.bodies[0], nullptr, 0, child));
  for (uint32_t i = 1; i < 40; ++i) add_kernel(loop.bodies[0], {}, "add", words.at(i * 64), 64, 2);
  add_setter(loop.bodies[0], {inside}, "count_down", left.at(), handle);
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(words.read(), all(40 * 64, 6));
}

TEST_F(GraphConditionalTest, WhatComesAfterWaits) {
  GraphHandle graph;
  const Words left(1), word(1);
  const CUgraphConditionalHandle handle = make_handle(graph, 1);
  const CUgraphNode first = add_fill(graph, {}, left.at(), 1, 50);
  const Branch loop = add_branch(graph, {first}, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  add_setter(loop.bodies[0], {}, "count_down", left.at(), handle);
  ExecHandle exec(graph);
  const Stream stream;
  const Event end;
  EXPECT_OK(cuGraphLaunch(exec, stream));
  EXPECT_OK(cuMemcpyDtoDAsync_v2(word.at(), left.at(), 4, stream));
  EXPECT_OK(cuEventRecord(end, stream));
  EXPECT_OK(cuEventSynchronize(end));
  EXPECT_EQ(word.read(), all(1, 0));
}

TEST_F(GraphConditionalTest, FaultsEndLoops) {
  const Words left(1);
  CUcontext apart = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&apart, 0, device_));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, ptx_module(kConditionKernels).c_str()));
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUgraphConditionalHandle handle = 0;
  EXPECT_OK(cuGraphConditionalHandleCreate(&handle, graph, apart, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams params = conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  params.conditional.ctx = apart;
  CUgraphNode node = nullptr;
  EXPECT_OK(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &params));
  CUdeviceptr word = kNowhere;
  void* values[] = {&word, &handle};
  CUDA_KERNEL_NODE_PARAMS kernel = {};
  EXPECT_OK(cuModuleGetFunction(&kernel.func, module, "set"));
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
  kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.kernelParams = values;
  EXPECT_OK(cuGraphAddKernelNode_v2(&node, params.conditional.phGraph_out[0], nullptr, 0, &kernel));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_OK(cuGraphLaunch(exec, nullptr));
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_OK(cuCtxDestroy_v2(apart));
  EXPECT_OK(cuCtxSetCurrent(context_));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(GraphConditionalTest, UpdatesTakeTheNewGraphsHandles) {
  const Words left(1), work(64);
  const auto make = [&](CUgraph graph, uint32_t times, uint32_t value) {
    const CUgraphConditionalHandle handle = make_handle(graph, 1);
    const CUgraphNode first = add_fill(graph, {}, left.at(), 1, times);
    const Branch loop = add_branch(graph, {first}, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
    const CUgraphNode step = add_kernel(loop.bodies[0], {}, "add", work.at(), 64, value);
    add_setter(loop.bodies[0], {step}, "count_down", left.at(), handle);
    return step;
  };
  work.write(all(64, 0));
  GraphHandle graph;
  const CUgraphNode step = make(graph, 3, 1);
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(work.read(), all(64, 3));
  {
    GraphHandle other;
    make(other, 5, 100);
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_OK(cuGraphExecUpdate_v2(exec, other, &info));
    EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  }
  run(exec, 2);
  EXPECT_EQ(work.read(), all(64, 1003));
  Launch launch{work.at(), 64, 1000};
  describe("add", &launch);
  EXPECT_OK(cuGraphExecKernelNodeSetParams_v2(exec, step, &launch.params));
  run(exec);
  EXPECT_EQ(work.read(), all(64, 6003));
  GraphHandle different;
  add_branch(different, {}, make_handle(different), CU_GRAPH_COND_TYPE_IF, 1);
  const CUgraphNode fill = add_fill(different, {}, left.at(), 1, 1);
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_CU(cuGraphExecUpdate_v2(exec, different, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_OK(cuGraphDestroyNode(fill));
  run(exec);
  EXPECT_EQ(work.read(), all(64, 11003));
}

TEST_F(GraphConditionalTest, OneExecutableAtATime) {
  GraphHandle graph;
  const Words word(1);
  word.write({0});
  const Branch branch = add_branch(graph, {}, make_handle(graph, 1), CU_GRAPH_COND_TYPE_IF, 1);
  add_kernel(branch.bodies[0], {}, "add", word.at(), 1, 1);
  CUgraphExec second = nullptr;
  {
    ExecHandle exec(graph);
    EXPECT_CU(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
    run(exec);
  }
  add_kernel(branch.bodies[0], {}, "add", word.at(), 1, 10);  // and again, with more in it
  ExecHandle exec(graph);
  run(exec);
  EXPECT_EQ(word.read(), all(1, 12));
}

TEST_F(GraphConditionalTest, TheExecutableOutlivesItsGraph) {
  const Words left(1);
  CUgraphExec exec = nullptr;
  {
    GraphHandle graph;
    const CUgraphConditionalHandle handle = make_handle(graph, 1);
    const CUgraphNode first = add_fill(graph, {}, left.at(), 1, 4);
    const Branch loop = add_branch(graph, {first}, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
    add_setter(loop.bodies[0], {}, "count_down", left.at(), handle);
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  }
  run(exec, 2);
  EXPECT_EQ(left.read(), all(1, 0));
  EXPECT_OK(cuGraphExecDestroy(exec));
}

TEST_F(GraphConditionalTest, CapturedBodies) {
  const Words left(1), work(64);
  const Stream stream, inside;
  EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_OK(cuMemsetD32Async(left.at(), 6, 1, stream));
  EXPECT_OK(cuMemsetD32Async(work.at(), 0, 64, stream));
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUgraph capturing = nullptr;
  const CUgraphNode* tips = nullptr;
  size_t count = 0;
  EXPECT_OK(cuStreamGetCaptureInfo_v2(stream, &status, nullptr, &capturing, &tips, &count));
  const CUgraphConditionalHandle handle = make_handle(capturing, 1);
  Branch loop =
      add_branch(capturing, Nodes(tips, tips + count), handle, CU_GRAPH_COND_TYPE_WHILE, 1);
  EXPECT_OK(
      cuStreamUpdateCaptureDependencies(stream, &loop.node, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  EXPECT_OK(cuStreamBeginCaptureToGraph(inside, loop.bodies[0], nullptr, nullptr, 0,
                                        CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(launch("add", inside, work.at(), 64, 7), CUDA_SUCCESS);
  CUdeviceptr word = left.at();
  CUgraphConditionalHandle argument = handle;
  void* values[] = {&word, &argument};
  CUfunction setter = nullptr;
  EXPECT_OK(cuModuleGetFunction(&setter, conditions_, "count_down"));
  EXPECT_OK(cuLaunchKernel(setter, 1, 1, 1, 1, 1, 1, 0, inside, values, nullptr));
  CUgraph body = nullptr;
  EXPECT_OK(cuStreamEndCapture(inside, &body));
  EXPECT_EQ(body, loop.bodies[0]);
  EXPECT_EQ(launch("add", stream, work.at(), 64, 1), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_OK(cuStreamEndCapture(stream, &graph));
  GraphHandle owner(graph);
  ExecHandle exec(graph);
  run(exec, 2);
  EXPECT_EQ(work.read(), all(64, 43));
}

TEST_F(GraphConditionalTest, DotShowsBodies) {
  GraphHandle graph;
  const Words word(1);
  const Branch cases = add_branch(graph, {}, make_handle(graph, 2), CU_GRAPH_COND_TYPE_SWITCH, 2);
  add_fill(cases.bodies[1], {}, word.at(), 1, 1);
  const std::string path = temporary_path("conditional.dot");
  EXPECT_OK(cuGraphDebugDotPrint(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, ::testing::HasSubstr("CONDITIONAL"));
  EXPECT_THAT(text, ::testing::HasSubstr("MEMSET"));
  (void)::unlink(path.c_str());
}

TEST_F(GraphConditionalTest, HandlesAndParameters) {
  GraphHandle graph, other;
  CUgraphConditionalHandle handle = 0;
  EXPECT_CU(cuGraphConditionalHandleCreate(nullptr, graph, context_, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphConditionalHandleCreate(&handle, nullptr, context_, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGraphConditionalHandleCreate(&handle, graph, context_, 0, 2),
            CUDA_ERROR_INVALID_VALUE);
  handle = make_handle(graph);
  EXPECT_NE(handle, make_handle(other));
  const auto add = [&](CUgraph to, CUgraphNodeParams params) {
    CUgraphNode node = nullptr;
    return driver().cuGraphAddNode_v2(&node, to, nullptr, nullptr, 0, &params);
  };
  EXPECT_EQ(add(graph, conditional(handle, CU_GRAPH_COND_TYPE_IF, 0)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph, conditional(handle, CU_GRAPH_COND_TYPE_IF, 3)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph, conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 2)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph, conditional(handle, CU_GRAPH_COND_TYPE_SWITCH, 0)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(graph, conditional(handle + 1, CU_GRAPH_COND_TYPE_IF, 1)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(add(other, conditional(handle, CU_GRAPH_COND_TYPE_IF, 1)), CUDA_ERROR_INVALID_VALUE);
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS how = {};
  EXPECT_CU(cuGraphInstantiateWithParams(&exec, graph, &how), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(how.result_out, CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
}

TEST_F(GraphConditionalTest, WhatIsNotAllowed) {
  GraphHandle graph, parent;
  const Words word(1);
  const Branch branch = add_branch(graph, {}, make_handle(graph), CU_GRAPH_COND_TYPE_IF, 1);
  CUgraph copy = nullptr;
  EXPECT_CU(cuGraphClone(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
  CUgraphNode node = nullptr;
  EXPECT_CU(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_CU(cuGraphDestroy(branch.bodies[0]), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeParams same = conditional(make_handle(graph), CU_GRAPH_COND_TYPE_IF, 1);
  EXPECT_CU(cuGraphNodeSetParams(branch.node, &same), CUDA_ERROR_NOT_SUPPORTED);
  // What bodies must not have is found when the graph is instantiated.
  add_branch(graph, {}, same.conditional.handle, CU_GRAPH_COND_TYPE_IF, 1);
  const Event event;
  CUgraphNode inside = nullptr;
  EXPECT_OK(cuGraphAddEventRecordNode(&inside, branch.bodies[0], nullptr, 0, event));
  CUgraphExec exec = nullptr;
  CUDA_GRAPH_INSTANTIATE_PARAMS how = {};
  EXPECT_CU(cuGraphInstantiateWithParams(&exec, graph, &how), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(how.hErrNode_out, inside);
  EXPECT_OK(cuGraphDestroyNode(inside));
  uint32_t ordinary = 0;
  inside = add_download(branch.bodies[0], {}, &ordinary, word.at(), 4);
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGraphDestroyNode(inside));
  ExecHandle good(graph);
  const Stream stream;
  EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(cuGraphLaunch(good, stream), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_OK(cuStreamEndCapture(stream, &copy));
  EXPECT_OK(cuGraphDestroy(copy));
}

}  // namespace
}  // namespace vgpu::conformance
