// Contexts: how they are made, what is set on them, counted uses.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

class ContextSettingsTest : public ContextTest {
 protected:
  // Destroys a context that was just made and is current.
  void end(CUcontext made) {
    CUcontext current = nullptr;
    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, made);
    EXPECT_OK(cuCtxDestroy_v2(made));
    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, context_);
  }
};

TEST_F(ContextSettingsTest, CreateWithAffinity) {
  CUcontext made = nullptr;
  ASSERT_OK(cuCtxCreate_v3(&made, nullptr, 0, CU_CTX_SCHED_YIELD, device_));
  unsigned flags = 0;
  EXPECT_OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_YIELD));
  end(made);
  EXPECT_CU(cuCtxCreate_v3(&made, nullptr, 1, 0, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxCreate_v3(nullptr, nullptr, 0, 0, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxCreate_v3(&made, nullptr, 0, 0, 99), CUDA_ERROR_INVALID_DEVICE);
  int supported = 0;
  ASSERT_OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device_));
  if (supported != 0) return;
  CUexecAffinityParam affinity = {};
  affinity.type = CU_EXEC_AFFINITY_TYPE_SM_COUNT;
  affinity.param.smCount.val = 1;
  EXPECT_CU(cuCtxCreate_v3(&made, &affinity, 1, 0, device_), CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
}

TEST_F(ContextSettingsTest, CreateWithParams) {
  CUcontext made = nullptr;
  CUctxCreateParams params = {};
  for (CUctxCreateParams* given : {static_cast<CUctxCreateParams*>(nullptr), &params}) {
    ASSERT_OK(cuCtxCreate_v4(&made, given, 0, device_));
    CUdevice device = -1;
    EXPECT_OK(cuCtxGetDevice_v2(&device, made));
    EXPECT_EQ(device, device_);
    end(made);
  }
  EXPECT_CU(cuCtxCreate_v4(&made, nullptr, 0, 99), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(ContextSettingsTest, OfANamedContext) {
  CUdevice device = -1;
  EXPECT_OK(cuCtxGetDevice_v2(&device, context_));
  EXPECT_EQ(device, device_);
  device = -1;
  EXPECT_OK(cuCtxGetDevice_v2(&device, nullptr));
  EXPECT_EQ(device, device_);
  EXPECT_CU(cuCtxGetDevice_v2(nullptr, context_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxGetDevice_v2(&device, garbage_handle<CUcontext>()), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuCtxSynchronize_v2(context_));
  EXPECT_OK(cuCtxSynchronize_v2(nullptr));
  EXPECT_CU(cuCtxSynchronize_v2(garbage_handle<CUcontext>()), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_OK(cuCtxSynchronize_v2(context_));
  EXPECT_CU(cuCtxSynchronize_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_CU(cuCtxGetDevice_v2(&device, nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(ContextSettingsTest, CacheConfig) {
  CUfunc_cache config = static_cast<CUfunc_cache>(99);
  ASSERT_OK(cuCtxGetCacheConfig(&config));
  const CUfunc_cache before = config;
  ASSERT_OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED));
  ASSERT_OK(cuCtxGetCacheConfig(&config));
  EXPECT_EQ(config, CU_FUNC_CACHE_PREFER_SHARED);
  EXPECT_OK(cuCtxSetCacheConfig(before));
  EXPECT_CU(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(99)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxGetCacheConfig(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextSettingsTest, SharedMemoryBanks) {
  CUsharedconfig config = static_cast<CUsharedconfig>(99);
  ASSERT_OK(cuCtxSetSharedMemConfig(CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE));
  ASSERT_OK(cuCtxGetSharedMemConfig(&config));
  EXPECT_EQ(config, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  EXPECT_CU(cuCtxSetSharedMemConfig(static_cast<CUsharedconfig>(99)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxGetSharedMemConfig(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ContextSettingsTest, PersistingCache) {
  int bytes = 0;
  ASSERT_OK(
      cuDeviceGetAttribute(&bytes, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, device_));
  EXPECT_CU(cuCtxResetPersistingL2Cache(), bytes > 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
}

// Libraries ask before they start: an ordinary context shares nothing with a graphics queue.
TEST_F(ContextSettingsTest, NoGraphicsQueue) {
  size_t value = 9;
  EXPECT_OK(cuCtxGetLimit(&value, CU_LIMIT_CIG_ENABLED));
  EXPECT_EQ(value, 0U);
}

TEST_F(ContextSettingsTest, Flags) {
  CUcontext made = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&made, CU_CTX_SCHED_SPIN, device_));
  unsigned flags = 0;
  ASSERT_OK(cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
  ASSERT_OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, static_cast<unsigned>(CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_CU(cuCtxSetFlags(0x10000), CUDA_ERROR_INVALID_VALUE);
  end(made);
}

// A context that was attached to is destroyed by the last detach.
TEST_F(ContextSettingsTest, AttachAndDetach) {
  CUcontext made = nullptr, attached = nullptr;
  ASSERT_OK(cuCtxCreate_v2(&made, 0, device_));
  ASSERT_OK(cuCtxAttach(&attached, 0));
  EXPECT_EQ(attached, made);
  EXPECT_CU(cuCtxAttach(&attached, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxAttach(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuCtxDetach(made));
  EXPECT_OK(cuCtxSynchronize_v2(made));
  EXPECT_OK(cuCtxDetach(made));
  EXPECT_THAT(driver().cuCtxSynchronize_v2(made),
              AnyOf(CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED));
  EXPECT_CU(cuCtxDetach(garbage_handle<CUcontext>()), CUDA_ERROR_INVALID_CONTEXT);
}

// As cuDeviceGetExecAffinitySupport says.
TEST_F(ContextSettingsTest, NoAffinityToAskFor) {
  int supported = -1;
  ASSERT_OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device_));
  if (supported != 0) GTEST_SKIP() << "this device has it";
  CUexecAffinityParam affinity = {};
  EXPECT_CU(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
            CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  EXPECT_CU(cuCtxGetExecAffinity(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_MAX), CUDA_ERROR_INVALID_VALUE);
}

// The heap of kernels' malloc is device memory: it is set only if there is enough.
TEST_F(ContextSettingsTest, TheHeapOfKernelsIsNoMoreThanThereIs) {
  const char* backend = std::getenv("VGPU_TEST_BACKEND");
  const std::string_view name = backend == nullptr ? "direct" : backend;
  if (name == "direct" || name == "cuda")
    GTEST_SKIP() << "a driver may set the limit and fail at the first launch";
  size_t free = 0, total = 0, after = 0;
  ASSERT_OK(cuMemGetInfo_v2(&free, &total));
  EXPECT_CU(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, total * 2), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, size_t{72} << 20));
  ASSERT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(after, free - (size_t{64} << 20));
  CUdeviceptr block = 0;
  EXPECT_CU(cuMemAlloc_v2(&block, after + (size_t{4} << 20)), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, size_t{8} << 20));
  ASSERT_OK(cuMemGetInfo_v2(&after, &total));
  EXPECT_EQ(after, free);
}

}  // namespace
}  // namespace vgpu::conformance
