// Kernels that launch kernels, by what the device runtime asks of a driver.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

// parent(out, count, stream) launches note(out, i) for i < count into `stream` (0 null, 3 tail, 4
// fire and forget) and leaves the last error that is not 0 in out[0]; note(out, i) writes i to
// out[2 + how many have run]. poke(nowhere), and faulty(), whose child it is.
constexpr char kNested[] = R"(
.extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2
(.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2(.param .b64 p, .param .b64 s);
.extern .func (.param .b32 r) __cuda_syscall_cnpv2GetLastError();
.func (.param .b32 r) launch(.param .b64 f, .param .b64 first, .param .b32 second, .param .b64 s)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  .param .align 4 .b8 one[12];
  .param .b32 zero;
  .param .b32 error;
  .param .b64 kernel;
  .param .b64 buffer;
  .param .b64 place;
  .param .b64 stream;
  ld.param.b64 %rd1, [f];
  ld.param.b64 %rd2, [first];
  ld.param.b32 %r1, [second];
  ld.param.b64 %rd3, [s];
  st.param.b32 [one], 1;
  st.param.b32 [one+4], 1;
  st.param.b32 [one+8], 1;
  st.param.b32 [zero], 0;
  st.param.b64 [kernel], %rd1;
  call (buffer), __cuda_syscall_cnpv2GetParameterBufferV2, (kernel, one, one, zero);
  ld.param.b64 %rd4, [buffer];
  setp.eq.s64 %p1, %rd4, 0;
  @%p1 bra DONE;
  st.u64 [%rd4], %rd2;
  st.u32 [%rd4+8], %r1;
  st.param.b64 [place], %rd4;
  st.param.b64 [stream], %rd3;
  call (error), __cuda_syscall_cnpv2LaunchDeviceV2, (place, stream);
DONE:
  call (error), __cuda_syscall_cnpv2GetLastError, ();
  ld.param.b32 %r2, [error];
  st.param.b32 [r], %r2;
  ret;
}
.visible .entry note(.param .u64 out, .param .u32 i)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [i];
  atom.global.add.u32 %r2, [%rd1+4], 1;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+8], %r1;
  ret;
}
.visible .entry parent(.param .u64 out, .param .u32 count, .param .u64 s)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  .param .b32 error;
  .param .b32 number;
  .param .b64 kernel;
  .param .b64 where;
  .param .b64 stream;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [count];
  ld.param.u64 %rd2, [s];
  mov.u64 %rd3, note;
  mov.u32 %r2, 0;
LOOP:
  st.param.b64 [kernel], %rd3;
  st.param.b64 [where], %rd1;
  st.param.b32 [number], %r2;
  st.param.b64 [stream], %rd2;
  call (error), launch, (kernel, where, number, stream);
  ld.param.b32 %r3, [error];
  setp.ne.u32 %p1, %r3, 0;
  @%p1 st.global.u32 [%rd1], %r3;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, %r1;
  @%p2 bra LOOP;
  ret;
}
.visible .entry poke(.param .u64 nowhere, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [nowhere];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry faulty()
{
  .reg .b64 %rd<2>;
  .param .b32 error;
  .param .b32 number;
  .param .b64 kernel;
  .param .b64 where;
  .param .b64 stream;
  mov.u64 %rd1, poke;
  st.param.b64 [kernel], %rd1;
  st.param.b64 [where], 64;
  st.param.b32 [number], 1;
  st.param.b64 [stream], 0;
  call (error), launch, (kernel, where, number, stream);
  ret;
}
)";

constexpr uint64_t kNullStream = 0, kTail = 3, kFireAndForget = 4;
constexpr uint32_t kOutOfResources = 701;  // cudaErrorLaunchOutOfResources

// NVIDIA's driver links its own runtime to these names; whether it does for bare text is not known.
bool is_ours() {
  const char* const backend = std::getenv("VGPU_TEST_BACKEND");
  return backend == nullptr || std::string_view(backend) != "cuda";
}

class NestedLaunchTest : public ContextTest {
 protected:
  void SetUp() override {
    if (!is_ours()) GTEST_SKIP() << "a driver of NVIDIA's";
    ContextTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, ptx_module(kNested).c_str()));
    ASSERT_OK(cuModuleGetFunction(&parent_, module_, "parent"));
  }
  void TearDown() override {
    if (!is_ours()) return;
    EXPECT_OK(cuModuleUnload(module_));
    ContextTest::TearDown();
  }
  void launch(const Words& words, uint32_t count, uint64_t stream, CUstream host = nullptr) {
    EXPECT_OK(cuMemsetD32_v2(words.at(), 0, words.bytes() / 4));
    CUdeviceptr out = words.at();
    void* params[] = {&out, &count, &stream};
    EXPECT_OK(cuLaunchKernel(parent_, 1, 1, 1, 1, 1, 1, 0, host, params, nullptr));
  }
  CUmodule module_ = nullptr;
  CUfunction parent_ = nullptr;
};

TEST_F(NestedLaunchTest, AGridEndsWithItsChildrenWhichKeepTheirOrder) {
  const Words words(502);
  for (const uint64_t stream : {kNullStream, kTail}) {
    launch(words, 500, stream);
    const std::vector<uint32_t> values = words.read();
    EXPECT_EQ(values[0], 0U);
    EXPECT_EQ(values[1], 500U);
    for (uint32_t i = 0; i < 500; ++i) EXPECT_EQ(values[2 + i], i);
  }
}

TEST_F(NestedLaunchTest, EventsAndStreamsOfTheHostWaitForChildren) {
  const Words words(203);
  Stream stream, other;
  Event event;
  CUfunction note = nullptr;
  ASSERT_OK(cuModuleGetFunction(&note, module_, "note"));
  launch(words, 200, kFireAndForget, stream);
  EXPECT_OK(cuEventRecord(event, stream));
  EXPECT_OK(cuStreamWaitEvent(other, event, 0));
  CUdeviceptr out = words.at();
  uint32_t last = 77;
  void* params[] = {&out, &last};
  // One word more than the children write: what comes last is seen there, behind all of them.
  EXPECT_OK(cuMemsetD32Async(words.at(), 5, 1, other));
  EXPECT_OK(cuStreamSynchronize(other));
  const std::vector<uint32_t> values = words.read();
  EXPECT_EQ(values[0], 5U);
  EXPECT_EQ(values[1], 200U);
  EXPECT_OK(cuLaunchKernel(note, 1, 1, 1, 1, 1, 1, 0, other, params, nullptr));
  EXPECT_OK(cuStreamSynchronize(other));
}

TEST_F(NestedLaunchTest, NoMoreWaitThanTheLimitSays) {
  const Words words(42);
  size_t before = 0, after = 0;
  ASSERT_OK(cuCtxGetLimit(&before, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
  EXPECT_EQ(before, 2048U);
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 32));
  EXPECT_OK(cuCtxGetLimit(&after, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
  EXPECT_EQ(after, 32U);
  for (int round = 0; round < 2; ++round) {
    launch(words, 40, kTail);
    const std::vector<uint32_t> values = words.read();
    EXPECT_EQ(values[0], kOutOfResources);
    EXPECT_EQ(values[1], 32U);
  }
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, before));
  EXPECT_CU(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 3), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST(NestedFaultTest, AFaultOfAChildStays) {
  EXPECT_EQ(run_in_fresh_process("NestedFaultTest.DISABLED_OfAChild"), 0);
}

TEST(NestedFaultTest, DISABLED_OfAChild) {
  if (!is_ours()) GTEST_SKIP() << "a driver of NVIDIA's";
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUfunction faulty = nullptr;
  CUdeviceptr address = 0;
  ASSERT_OK(cuInit(0));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuModuleLoadData(&module, ptx_module(kNested).c_str()));
  ASSERT_OK(cuModuleGetFunction(&faulty, module, "faulty"));
  EXPECT_OK(cuLaunchKernel(faulty, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_CU(cuMemAlloc_v2(&address, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace vgpu::conformance
