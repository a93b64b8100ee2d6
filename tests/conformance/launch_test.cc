// Launches: geometry, parameters, shared memory, what is refused, faults that stay.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

using LaunchTest = KernelTest;

TEST_F(LaunchTest, EveryThreadKnowsItsPlace) {
  constexpr uint32_t kBlocks = 3 * 2 * 2, kThreads = 5 * 4 * 2;
  const Words words(kBlocks * kThreads);
  CUdeviceptr out = words.at();
  void* params[] = {&out};
  ASSERT_OK(cuLaunchKernel(function("where"), 3, 2, 2, 5, 4, 2, 0, nullptr, params, nullptr));
  const auto values = words.read();
  for (uint32_t block = 0; block < kBlocks; ++block) {
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      EXPECT_EQ(values[block * kThreads + thread], block << 16 | thread);
    }
  }
}

TEST_F(LaunchTest, ParametersAreReadAtTheCall) {
  Stream stream;
  const Words words(8);
  Gate gate(function("gate"), stream);
  CUdeviceptr out = words.at();
  uint32_t n = 8, value = 21;
  void* params[] = {&out, &n, &value};
  ASSERT_OK(cuLaunchKernel(function("fill"), 1, 1, 1, 8, 1, 1, 0, stream, params, nullptr));
  value = 99;
  n = 0;
  gate.open();
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 21));
}

TEST_F(LaunchTest, PackedParameters) {
  const Words words(8);
  struct {
    CUdeviceptr out;
    uint32_t n, value;
  } packed = {words.at(), 8, 31};
  size_t bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  EXPECT_OK(cuLaunchKernel(function("fill"), 1, 1, 1, 8, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 31));
  void* params[] = {&packed.out, &packed.n, &packed.value};
  EXPECT_CU(cuLaunchKernel(function("fill"), 1, 1, 1, 8, 1, 1, 0, nullptr, params, extra),
            CUDA_ERROR_INVALID_VALUE);
}

// What a pointer points to may be aligned to less than the pointer.
TEST_F(LaunchTest, PackedParametersWithPointers) {
  constexpr char kText[] = R"(.version 8.0
.target sm_52
.address_size 64
.visible .entry put(.param .f32 put_0, .param .u64 .ptr .align 1 put_1, .param .u8 put_2,
                    .param .u64 .ptr .global .align 2 put_3) {
  .reg .b64 %d<3>;
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [put_0];
  ld.param.u64 %d1, [put_1];
  ld.param.u64 %d2, [put_3];
  st.global.b32 [%d1], %r1;
  st.global.b32 [%d2], %r1;
  ret;
}
)";
  CUmodule module = nullptr;
  CUfunction put = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kText));
  ASSERT_OK(cuModuleGetFunction(&put, module, "put"));
  size_t offset = 0, bytes = 0;
  EXPECT_OK(cuFuncGetParamInfo(put, 1, &offset, &bytes));
  EXPECT_EQ(offset, 8U);
  EXPECT_OK(cuFuncGetParamInfo(put, 3, &offset, &bytes));
  EXPECT_EQ(offset, 24U);
  const Words words(2);
  struct {
    uint32_t value;
    CUdeviceptr first;
    char small;
    CUdeviceptr second;
  } packed = {7, words.at(0), 0, words.at(1)};
  bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  EXPECT_OK(cuLaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(2, 7));
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(LaunchTest, WithConfiguration) {
  const Words words(8);
  CUdeviceptr out = words.at();
  uint32_t n = 8, value = 41;
  void* params[] = {&out, &n, &value};
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 8;
  config.blockDimY = config.blockDimZ = 1;
  EXPECT_OK(cuLaunchKernelEx(&config, function("fill"), params, nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 41));
  EXPECT_CU(cuLaunchKernelEx(nullptr, function("fill"), params, nullptr), CUDA_ERROR_INVALID_VALUE);
  // What only says how a launch might be faster, as NCCL does.
  CUlaunchAttribute hints[3] = {};
  hints[0].id = CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
  hints[0].value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  hints[1].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  hints[1].value.sharedMemCarveout = 50;
  hints[2].id = CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING;
  hints[2].value.nvlinkUtilCentricScheduling = 1;
  config.attrs = hints;
  config.numAttrs = 3;
  value = 42;
  EXPECT_OK(cuLaunchKernelEx(&config, function("fill"), params, nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 42));
}

TEST_F(LaunchTest, DynamicSharedMemory) {
  const Words in(256), out(1);
  std::vector<uint32_t> values(256);
  uint32_t expected = 0;
  for (uint32_t i = 0; i < 256; ++i) expected += values[i] = i * i;
  in.write(values);
  CUdeviceptr to = out.at(), from = in.at();
  void* params[] = {&to, &from};
  EXPECT_OK(cuLaunchKernel(function("sum"), 1, 1, 1, 256, 1, 1, 1024, nullptr, params, nullptr));
  EXPECT_EQ(out.read()[0], expected);
}

TEST_F(LaunchTest, BadGeometry) {
  const Words words(8);
  CUdeviceptr out = words.at();
  uint32_t n = 8, value = 1;
  void* params[] = {&out, &n, &value};
  CUfunction fill = function("fill");
  const auto result = [&](unsigned grid, unsigned block, unsigned block_z, unsigned shared) {
    return driver().cuLaunchKernel(fill, grid, 1, 1, block, 1, block_z, shared, nullptr, params,
                                   nullptr);
  };
  EXPECT_EQ(result(0, 8, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 8, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 1, 65, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 512, 4, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 8, 1, 64 << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(0x80000000U, 8, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(result(1, 8, 1, 0), CUDA_SUCCESS);
}

// Text in single assignment form declares far more registers than the kernel needs at any time.
TEST_F(LaunchTest, ManyDeclaredRegisters) {
  const char* const kBody =
      "{ .reg .b32 %x<1500>; .reg .b32 %v<2>; .reg .b64 %p<3>; ld.param.u64 %p0, [out];\n"
      "mov.u32 %v0, %tid.x; mul.wide.u32 %p1, %v0, 4; add.u64 %p2, %p0, %p1;\n"
      "st.global.u32 [%p2], %v0; ret; }\n";
  const std::string text =
      ptx_module(std::string(".visible .entry free(.param .u64 out)\n") + kBody +
                 ".visible .entry bound(.param .u64 out) .maxntid 384\n" + kBody);
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, text.c_str()));
  const Words words(1024);
  CUdeviceptr out = words.at();
  void* params[] = {&out};
  for (const auto& [name, threads] : {std::pair{"free", 1024}, std::pair{"bound", 384}}) {
    CUfunction kernel = nullptr;
    ASSERT_OK(cuModuleGetFunction(&kernel, module, name));
    int blocks = 0, most = 0;
    EXPECT_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0));
    EXPECT_GE(blocks, 1) << name;
    EXPECT_OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel));
    EXPECT_EQ(most, threads) << name;
    EXPECT_OK(cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, nullptr, params, nullptr));
    EXPECT_EQ(words.read()[threads - 1], threads - 1) << name;
  }
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(LaunchTest, BadHandles) {
  void* params[] = {nullptr};
  for (CUfunction wrong : {CUfunction{nullptr}, garbage_handle<CUfunction>()}) {
    EXPECT_THAT(driver().cuLaunchKernel(wrong, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
                AnyOf(CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_INVALID_VALUE));
  }
  const Words words(8);
  EXPECT_EQ(launch("fill", garbage_handle<CUstream>(), words.at(), 8, 1),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(LaunchTest, ManyInOrder) {
  Stream stream;
  const Words words(300);
  words.write(std::vector<uint32_t>(300, 0));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(launch("add", stream, words.at(), 300, 1), CUDA_SUCCESS);
  }
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(300, 2000));
}

TEST(FaultTest, IllegalAddressIsSticky) {
  EXPECT_EQ(run_in_fresh_process("FaultChildTest.DISABLED_IllegalAddressIsSticky"), 0);
}

// Without the fixture's end: after the fault no call of this context succeeds.
TEST(FaultChildTest, DISABLED_IllegalAddressIsSticky) {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction poke = nullptr;
  CUdeviceptr address = 0;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, kKernels));
  ASSERT_OK(cuModuleGetFunction(&poke, module, "poke"));
  ASSERT_OK(cuMemAlloc_v2(&address, 64));
  CUdeviceptr nowhere = kNowhere;
  void* params[] = {&nowhere};
  EXPECT_OK(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr more = 0;
  char host[64];
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuMemAlloc_v2(&more, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuMemcpyDtoH_v2(host, address, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuStreamSynchronize(nullptr), CUDA_ERROR_ILLEGAL_ADDRESS);
  params[0] = &address;
  EXPECT_CU(cuLaunchKernel(poke, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr),
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(FaultTest, OthersGoOnAfterIt) {
  EXPECT_EQ(run_in_fresh_process("FaultChildTest.DISABLED_IllegalAddressIsSticky"), 0);
  EXPECT_EQ(run_in_fresh_process("FaultChildTest.DISABLED_Works"), 0);
}
TEST(FaultChildTest, DISABLED_Works) {
  CUcontext context = nullptr;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  const Words words(10);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 5, 10));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(10, 5));
}

}  // namespace
}  // namespace vgpu::conformance
