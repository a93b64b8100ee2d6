// Launches with clusters: sizes, whose blocks reach each other's shared memory, what is refused,
// graphs. SPDX-License-Identifier: Apache-2.0
#include "fixture.h"
#include "graph_support.h"

namespace vgpu::conformance {
namespace {

// circle: every block tells the next of its cluster its own rank, the cluster's size and its index.
// fixed: the same, in clusters of 2 whatever the launch says. named: only where the launch says it.
const std::string& cluster_kernels() {
  static const std::string kText = [] {
    const std::string body = R"({
  .shared .align 4 .b32 word;
  .reg .pred %p;
  .reg .b32 %r<20>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %cluster_nctarank;
  mov.u32 %r3, %clusterid.x;
  mov.u32 %r4, %clusterid.y;
  mad.lo.u32 %r5, %r2, 0x100, %r1;
  mad.lo.u32 %r5, %r3, 0x10000, %r5;
  mad.lo.u32 %r5, %r4, 0x1000000, %r5;
  add.u32 %r6, %r1, 1;
  rem.u32 %r6, %r6, %r2;
  mov.u32 %r7, word;
  mapa.shared::cluster.u32 %r7, %r7, %r6;
  st.shared::cluster.u32 [%r7], %r5;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  ld.shared.u32 %r8, [word];
  mov.u32 %r9, %ctaid.y;
  mov.u32 %r10, %nctaid.x;
  mov.u32 %r11, %ctaid.x;
  mad.lo.u32 %r12, %r9, %r10, %r11;
  mul.wide.u32 %rd2, %r12, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r8;
  ret;
}
)";
    std::string text = ".version 7.8\n.target sm_90\n.address_size 64\n";
    for (const char* head : {"circle(.param .u64 out)",
                             "fixed(.param .u64 out)\n.explicitcluster\n"
                             ".reqnctapercluster 2, 1, 1",
                             "named(.param .u64 out)\n.explicitcluster"})
      text += std::string(".visible .entry ") + head + "\n" + body;
    return text;
  }();
  return kText;
}

struct Size {
  uint32_t x, y;
};

// What `circle` writes for a grid and clusters of these sizes.
std::vector<uint32_t> circle_of(Size grid, Size cluster) {
  std::vector<uint32_t> all;
  const uint32_t blocks = cluster.x * cluster.y;
  for (uint32_t y = 0; y < grid.y; ++y) {
    for (uint32_t x = 0; x < grid.x; ++x) {
      const uint32_t rank = x % cluster.x + cluster.x * (y % cluster.y);
      all.push_back((rank + blocks - 1) % blocks | blocks << 8 | x / cluster.x << 16 |
                    y / cluster.y << 24);
    }
  }
  return all;
}

class ClusterTest : public ContextTest {
 protected:
  void SetUp() override {
    ContextTest::SetUp();
    if (HasFatalFailure()) return;
    int served = 0, major = 0;
    ASSERT_OK(cuDeviceGetAttribute(&served, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device_));
    ASSERT_OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device_));
    ASSERT_EQ(served, major >= 9 ? 1 : 0);
    if (served == 0) GTEST_SKIP() << "a device without clusters";
    ASSERT_OK(cuModuleLoadData(&module_, cluster_kernels().c_str()));
  }
  void TearDown() override {
    if (module_ != nullptr) EXPECT_OK(cuModuleUnload(module_));
    ContextTest::TearDown();
  }
  CUfunction function(const char* name) {
    CUfunction found = nullptr;
    EXPECT_OK(cuModuleGetFunction(&found, module_, name));
    return found;
  }
  static CUlaunchAttribute attribute(Size cluster, uint32_t z = 1) {
    CUlaunchAttribute a = {};
    a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a.value.clusterDim.x = cluster.x;
    a.value.clusterDim.y = cluster.y;
    a.value.clusterDim.z = z;
    return a;
  }
  CUlaunchConfig config(Size grid) {
    CUlaunchConfig c = {};
    c.gridDimX = grid.x;
    c.gridDimY = grid.y;
    c.gridDimZ = 1;
    c.blockDimX = 32;
    c.blockDimY = c.blockDimZ = 1;
    return c;
  }
  CUresult launch(const char* name, Size grid, std::vector<CUlaunchAttribute> attributes,
                  const Words& out, CUstream stream = nullptr) {
    CUlaunchConfig c = config(grid);
    c.hStream = stream;
    c.attrs = attributes.data();
    c.numAttrs = static_cast<unsigned>(attributes.size());
    CUdeviceptr address = out.at();
    void* params[] = {&address};
    return driver().cuLaunchKernelEx(&c, function(name), params, nullptr);
  }
  CUmodule module_ = nullptr;
};

TEST_F(ClusterTest, BlocksReachEachOther) {
  for (const Size cluster : {Size{1, 1}, {2, 1}, {3, 1}, {1, 4}, {2, 2}, {8, 1}, {2, 4}}) {
    const Size grid = {cluster.x * 3, cluster.y * 2};
    const Words out(size_t{grid.x} * grid.y);
    SCOPED_TRACE(std::to_string(cluster.x) + " x " + std::to_string(cluster.y));
    ASSERT_EQ(launch("circle", grid, {attribute(cluster)}, out), CUDA_SUCCESS);
    EXPECT_EQ(out.read(), circle_of(grid, cluster));
  }
}

TEST_F(ClusterTest, ManyClusters) {
  const Size grid = {120, 64}, cluster = {4, 2};
  const Words out(size_t{grid.x} * grid.y);
  ASSERT_EQ(launch("circle", grid, {attribute(cluster)}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of(grid, cluster));
}

TEST_F(ClusterTest, WithoutTheAttributeABlockIsAlone) {
  const Words out(6);
  ASSERT_EQ(launch("circle", {3, 2}, {}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({3, 2}, {1, 1}));
}

TEST_F(ClusterTest, KernelsNameTheirOwnSize) {
  const Words out(6);
  CUdeviceptr address = out.at();
  void* params[] = {&address};
  const CUfunction fixed = function("fixed");
  ASSERT_OK(cuLaunchKernel(fixed, 6, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(out.read(), circle_of({6, 1}, {2, 1}));
  ASSERT_EQ(launch("fixed", {6, 1}, {attribute({2, 1})}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({6, 1}, {2, 1}));
  int value = -1;
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, fixed));
  EXPECT_EQ(value, 2);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, fixed));
  EXPECT_EQ(value, 1);
  EXPECT_OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, fixed));
  EXPECT_EQ(value, 1);
  EXPECT_CU(cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 3),
            CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(launch("fixed", {6, 1}, {attribute({3, 1})}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  EXPECT_CU(cuLaunchKernel(fixed, 5, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr),
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_F(ClusterTest, KernelsDemandASize) {
  const Words out(6);
  EXPECT_EQ(launch("named", {6, 1}, {}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_EQ(launch("named", {6, 1}, {attribute({3, 1})}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({6, 1}, {3, 1}));
}

TEST_F(ClusterTest, SizesAreSetAtRunTime) {
  const Words out(6);
  const CUfunction circle = function("circle");
  ASSERT_OK(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 3));
  ASSERT_OK(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
  EXPECT_EQ(launch("circle", {6, 1}, {}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE)
      << "all are positive, or none";
  ASSERT_OK(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
  ASSERT_EQ(launch("circle", {6, 1}, {}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({6, 1}, {3, 1}));
  EXPECT_CU(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, -1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ClusterTest, LargerSizesMustBeAllowed) {
  const Words out(32);
  const CUfunction circle = function("circle");
  EXPECT_EQ(launch("circle", {32, 1}, {attribute({16, 1})}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_OK(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  int value = 0;
  EXPECT_OK(
      cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, circle));
  EXPECT_EQ(value, 1);
  ASSERT_EQ(launch("circle", {32, 1}, {attribute({16, 1})}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({32, 1}, {16, 1}));
  EXPECT_EQ(launch("circle", {32, 1}, {attribute({32, 1})}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
}

TEST_F(ClusterTest, WrongSizesAreRefused) {
  const Words out(8);
  for (const CUlaunchAttribute& wrong :
       {attribute({3, 1}), attribute({0, 1}), attribute({1, 2}), attribute({1, 1}, 2),
        attribute({9, 1}), attribute({0xffffffff, 0xffffffff})}) {
    EXPECT_EQ(launch("circle", {8, 1}, {wrong}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE)
        << wrong.value.clusterDim.x << " " << wrong.value.clusterDim.y;
  }
  ASSERT_EQ(launch("circle", {8, 1}, {attribute({2, 1})}, out), CUDA_SUCCESS)
      << "nothing stays behind";
  EXPECT_EQ(out.read(), circle_of({8, 1}, {2, 1}));
}

TEST_F(ClusterTest, CooperativeGrids) {
  const Words out(8);
  CUlaunchAttribute cooperative = {};
  cooperative.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  cooperative.value.cooperative = 1;
  ASSERT_EQ(launch("circle", {8, 1}, {cooperative, attribute({4, 1})}, out), CUDA_SUCCESS);
  EXPECT_EQ(out.read(), circle_of({8, 1}, {4, 1}));
  const Words many(1 << 16);
  EXPECT_EQ(launch("circle", {1 << 16, 1}, {cooperative, attribute({4, 1})}, many),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

TEST_F(ClusterTest, HowManyFit) {
  CUlaunchConfig c = config({8, 1});
  const CUfunction circle = function("circle");
  int size = 0, count = 0;
  EXPECT_OK(cuOccupancyMaxPotentialClusterSize(&size, circle, &c));
  EXPECT_EQ(size, 8) << "portable";
  EXPECT_CU(cuOccupancyMaxActiveClusters(&count, circle, &c), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CUlaunchAttribute asked = attribute({2, 1});
  c.attrs = &asked;
  c.numAttrs = 1;
  EXPECT_OK(cuOccupancyMaxActiveClusters(&count, circle, &c));
  EXPECT_GE(count, 1);
  asked = attribute({16, 1});
  EXPECT_CU(cuOccupancyMaxActiveClusters(&count, circle, &c), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_OK(cuFuncSetAttribute(circle, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  EXPECT_OK(cuOccupancyMaxActiveClusters(&count, circle, &c));
  EXPECT_OK(cuOccupancyMaxPotentialClusterSize(&size, circle, &c));
  EXPECT_EQ(size, 16);
  EXPECT_OK(cuOccupancyMaxPotentialClusterSize(&size, function("fixed"), &c));
  EXPECT_EQ(size, 2);
}

TEST_F(ClusterTest, CapturedLaunches) {
  Stream stream;
  const Words out(8);
  ASSERT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_EQ(launch("circle", {8, 1}, {attribute({4, 1})}, out, stream), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream, &graph));
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(out.read(), circle_of({8, 1}, {4, 1}));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(ClusterTest, NodesWithTheAttribute) {
  Stream stream;
  const Words out(8);
  CUdeviceptr address = out.at();
  void* args[] = {&address};
  CUDA_KERNEL_NODE_PARAMS params = {};
  params.func = function("named");
  params.gridDimX = 8;
  params.gridDimY = params.gridDimZ = params.blockDimY = params.blockDimZ = 1;
  params.blockDimX = 32;
  params.kernelParams = args;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &params));  // the size may follow
  EXPECT_CU(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CUlaunchAttribute size = attribute({2, 1});
  ASSERT_OK(
      cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &size.value));
  CUlaunchAttributeValue read = {};
  ASSERT_OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &read));
  EXPECT_EQ(read.clusterDim.x, 2u);
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(out.read(), circle_of({8, 1}, {2, 1}));
  size = attribute({4, 1});
  ASSERT_OK(
      cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &size.value));
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_CU(cuGraphExecUpdate_v2(exec, graph, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

}  // namespace
}  // namespace vgpu::conformance
