// cuInit, cuDriverGetVersion, and what other calls give before cuInit and after fork.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

TEST(InitTest, FlagsMustBeZero) {
  EXPECT_OK(cuInit(0));
  EXPECT_CU(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuInit(0));
}

TEST(InitTest, Version) {
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_GE(version, 11080);
  EXPECT_CU(cuDriverGetVersion(nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST(InitTest, AChildWithoutATestFails) { EXPECT_NE(run_in_fresh_process("No.Such"), 0); }
TEST(InitTest, BeforeInit) { EXPECT_EQ(run_in_fresh_process("InitTest.DISABLED_BeforeInit"), 0); }
TEST(InitTest, DISABLED_BeforeInit) {
  int number = 0;
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  size_t bytes = 0;
  EXPECT_CU(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuDeviceTotalMem_v2(&bytes, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuMemAlloc_v2(&address, 64), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuMemFree_v2(0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuMemGetInfo_v2(&bytes, &bytes), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuStreamCreate(&stream, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuStreamSynchronize(nullptr), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuEventCreate(&event, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_CU(cuModuleLoadData(&module, kKernels), CUDA_ERROR_NOT_INITIALIZED);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  EXPECT_OK(cuDriverGetVersion(&version));
  EXPECT_OK(cuInit(0));
  EXPECT_OK(cuDeviceGetCount(&number));
  EXPECT_GE(number, 1);
}

TEST(InitTest, ManyThreadsAtOnce) {
  EXPECT_EQ(run_in_fresh_process("InitTest.DISABLED_ManyThreadsAtOnce"), 0);
}
TEST(InitTest, DISABLED_ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      EXPECT_OK(cuInit(0));
      int count = 0;
      EXPECT_OK(cuDeviceGetCount(&count));
      EXPECT_GE(count, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// After a fork the child has no driver; the parent's stays whole.
TEST(InitTest, ForkedChildIsRefused) {
  EXPECT_EQ(run_in_fresh_process("InitTest.DISABLED_ForkedChildIsRefused"), 0);
}
TEST(InitTest, DISABLED_ForkedChildIsRefused) {
  ASSERT_OK(cuInit(0));
  CUcontext context = nullptr;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  CUdeviceptr address = 0;
  ASSERT_OK(cuMemAlloc_v2(&address, 64));
  const pid_t child = ::fork();
  if (child == 0) {
    CUdeviceptr mine = 0;
    const bool refused = driver().cuMemAlloc_v2(&mine, 64) == CUDA_ERROR_NOT_INITIALIZED &&
                         driver().cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_OK(cuMemsetD8_v2(address, 1, 64));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemFree_v2(address));
}

TEST(InitTest, ForkBeforeInitIsFine) {
  EXPECT_EQ(run_in_fresh_process("InitTest.DISABLED_ForkBeforeInitIsFine"), 0);
}
TEST(InitTest, DISABLED_ForkBeforeInitIsFine) {
  int version = 0;
  ASSERT_OK(cuDriverGetVersion(&version));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(driver().cuInit(0) == CUDA_SUCCESS ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_OK(cuInit(0));
}

}  // namespace
}  // namespace vgpu::conformance
