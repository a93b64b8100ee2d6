// Contexts: the primary one, created ones, the stack of each thread.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

class ContextsTest : public ContextTest {
 protected:
  CUcontext current() {
    CUcontext context = garbage_handle<CUcontext>();
    EXPECT_OK(cuCtxGetCurrent(&context));
    return context;
  }
};

TEST_F(ContextsTest, PrimaryIsCounted) {
  CUcontext again = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&again, device_));
  EXPECT_EQ(again, context_);
  unsigned flags = 99;
  int active = 0;
  ASSERT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_OK(cuDevicePrimaryCtxRelease_v2(device_));
  ASSERT_OK(cuDevicePrimaryCtxGetState(device_, &flags, &active));
  EXPECT_EQ(active, 1);
  EXPECT_CU(cuDevicePrimaryCtxRetain(nullptr, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDevicePrimaryCtxRetain(&again, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(ContextsTest, ReleaseWithoutRetain) {
  EXPECT_EQ(run_in_fresh_process("ContextFreshTest.DISABLED_ReleaseWithoutRetain"), 0);
}
TEST(ContextFreshTest, DISABLED_ReleaseWithoutRetain) {
  ASSERT_OK(cuInit(0));
  EXPECT_CU(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
  unsigned flags = 99;
  int active = 9;
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  EXPECT_OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(flags, static_cast<unsigned>(CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_CU(cuDevicePrimaryCtxSetFlags_v2(0, 0xffff), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextsTest, NoneCurrent) {
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_EQ(current(), nullptr);
  CUdevice device = -1;
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  unsigned flags = 0;
  EXPECT_CU(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxGetFlags(&flags), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuMemAlloc_v2(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext popped = nullptr;
  EXPECT_CU(cuCtxPopCurrent_v2(&popped), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextsTest, PushAndPop) {
  ASSERT_OK(cuCtxPushCurrent_v2(context_));
  ASSERT_OK(cuCtxPushCurrent_v2(context_));
  CUcontext popped = nullptr;
  ASSERT_OK(cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(popped, context_);
  EXPECT_EQ(current(), context_);
  ASSERT_OK(cuCtxPopCurrent_v2(nullptr));
  EXPECT_EQ(current(), context_);
  ASSERT_OK(cuCtxPopCurrent_v2(&popped));
  EXPECT_EQ(current(), nullptr);
  EXPECT_CU(cuCtxPushCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextsTest, CreateMakesCurrentDestroyPops) {
  CUcontext created = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&created, 0, device_));
  EXPECT_NE(created, context_);
  EXPECT_EQ(current(), created);
  CUdevice device = -1;
  EXPECT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device, device_);
  unsigned long long first = 0, second = 0;  // NOLINT(google-runtime-int): the driver's type
  EXPECT_OK(cuCtxGetId(created, &first));
  EXPECT_OK(cuCtxGetId(context_, &second));
  EXPECT_NE(first, second);
  EXPECT_OK(cuCtxDestroy_v2(created));
  EXPECT_EQ(current(), context_);
}

TEST_F(ContextsTest, StaleAndGarbageHandles) {
  CUcontext created = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&created, 0, device_));
  ASSERT_OK(cuCtxDestroy_v2(created));
  for (CUcontext wrong : {created, garbage_handle<CUcontext>()}) {
    EXPECT_THAT(driver().cuCtxSetCurrent(wrong),
                AnyOf(CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED));
    EXPECT_THAT(driver().cuCtxPushCurrent_v2(wrong),
                AnyOf(CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED));
    EXPECT_THAT(driver().cuCtxDestroy_v2(wrong),
                AnyOf(CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED));
  }
  EXPECT_EQ(current(), context_);
}

TEST_F(ContextsTest, BadArguments) {
  CUcontext created = nullptr;
  EXPECT_CU(cuCtxCreate_v2(nullptr, 0, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxCreate_v2(&created, 0xffff, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxCreate_v2(&created, 0, 99), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_CU(cuCtxGetCurrent(nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxGetDevice(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextsTest, EachThreadHasItsOwnStack) {
  std::thread([this] {
    EXPECT_EQ(current(), nullptr);
    EXPECT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuCtxSynchronize());
  }).join();
  EXPECT_EQ(current(), context_);
}

TEST_F(ContextsTest, MemoryIsSharedBetweenThreads) {
  const Words words(16);
  std::thread([&] {
    EXPECT_OK(cuCtxSetCurrent(context_));
    words.write(std::vector<uint32_t>(16, 5));
  }).join();
  EXPECT_EQ(words.read(), std::vector<uint32_t>(16, 5));
}

TEST_F(ContextsTest, VersionFlagsPriorities) {
  unsigned version = 0;
  EXPECT_OK(cuCtxGetApiVersion(context_, &version));
  EXPECT_GE(version, 3010U);
  unsigned flags = 0xffff;
  EXPECT_OK(cuCtxGetFlags(&flags));
  EXPECT_NE(flags, 0xffffU);
  int least = -99, greatest = 99;
  EXPECT_OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  EXPECT_GE(least, greatest);
  EXPECT_OK(cuCtxGetStreamPriorityRange(nullptr, nullptr));
}

TEST_F(ContextsTest, Limits) {
  size_t before = 0, after = 0;
  ASSERT_OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
  EXPECT_GT(before, 0U);
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
  EXPECT_OK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE));
  EXPECT_GE(after, 8192U);
  EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before));
  EXPECT_CU(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(driver().cuCtxGetLimit(&after, static_cast<CUlimit>(1000)),
              AnyOf(CUDA_ERROR_UNSUPPORTED_LIMIT, CUDA_ERROR_INVALID_VALUE));
}

}  // namespace
}  // namespace vgpu::conformance
