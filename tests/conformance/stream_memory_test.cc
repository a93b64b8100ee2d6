// Streams that wait for values in memory and write them; attributes of streams; grids whose blocks
// are all resident. SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string_view>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using StreamMemoryTest = KernelTest;

TEST_F(StreamMemoryTest, WorkWaitsForItsValue) {
  Stream waiting, writing;
  const Words flag(4), data(16);
  ASSERT_OK(cuMemsetD32_v2(flag.at(), 0, 4));
  ASSERT_OK(cuMemsetD32_v2(data.at(), 0, 16));
  ASSERT_OK(cuStreamWaitValue32_v2(waiting, flag.at(), 5, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_OK(cuStreamWaitValue64_v2(waiting, flag.at(2), 1, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_EQ(launch("add", waiting, data.at(), 16, 7), CUDA_SUCCESS);
  ASSERT_OK(cuStreamWriteValue32_v2(writing, flag.at(), 5, 0));
  ASSERT_OK(cuStreamSynchronize(writing));
  EXPECT_CU(cuStreamQuery(waiting), CUDA_ERROR_NOT_READY);
  ASSERT_OK(cuStreamWriteValue64_v2(writing, flag.at(2), 3, 0));
  ASSERT_OK(cuStreamSynchronize(waiting));
  EXPECT_EQ(data.read(), std::vector<uint32_t>(16, 7));
}

// However much work is behind a wait, it holds back nothing of another stream: not even what ends
// the wait.
TEST_F(StreamMemoryTest, ADeepStreamThatWaitsHoldsNoOtherBack) {
  if (std::getenv("VGPU_SOFTGPU_CONTRARY") != nullptr &&
      std::string_view(std::getenv("VGPU_TEST_BACKEND")) == "direct")
    GTEST_SKIP() << "a short queue of the driver's holds the caller back";
  Stream waiting(CU_STREAM_NON_BLOCKING), writing(CU_STREAM_NON_BLOCKING);
  constexpr size_t kWords = 1024;
  const Words flag(1), data(kWords);
  const std::vector<uint32_t> in(kWords, 3);
  ASSERT_OK(cuMemsetD32_v2(flag.at(), 0, 1));
  ASSERT_OK(cuStreamWaitValue32_v2(waiting, flag.at(), 1, CU_STREAM_WAIT_VALUE_EQ));
  for (int i = 0; i < 60; ++i)
    ASSERT_OK(cuMemcpyHtoDAsync_v2(data.at(), in.data(), kWords * sizeof(uint32_t), waiting));
  for (uint32_t i = 0; i < 600; ++i) ASSERT_OK(cuMemsetD32Async(data.at(), i, 16, waiting));
  ASSERT_OK(cuStreamWriteValue32_v2(writing, flag.at(), 1, 0));
  ASSERT_OK(cuStreamSynchronize(writing));
  ASSERT_OK(cuStreamSynchronize(waiting));
  EXPECT_EQ(data.read()[0], 599u);
  EXPECT_EQ(data.read()[16], 3u);
}

TEST_F(StreamMemoryTest, ABatchIsCarriedOutInOrder) {
  Stream stream;
  const Words flag(2);
  ASSERT_OK(cuMemsetD32_v2(flag.at(), 0, 2));
  CUstreamBatchMemOpParams operations[3] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = flag.at();
  operations[0].writeValue.value = 11;
  operations[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[1].waitValue.address = flag.at();
  operations[1].waitValue.value = 11;
  operations[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  operations[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[2].writeValue.address = flag.at(1);
  operations[2].writeValue.value = 12;
  ASSERT_OK(cuStreamBatchMemOp_v2(stream, 3, operations, 0));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(flag.read(), (std::vector<uint32_t>{11, 12}));
}

TEST_F(StreamMemoryTest, Attributes) {
  Stream stream, other;
  CUstreamAttrValue value = {};
  value.syncPolicy = CU_SYNC_POLICY_YIELD;
  ASSERT_OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  ASSERT_OK(cuStreamCopyAttributes(other, stream));
  value.syncPolicy = CU_SYNC_POLICY_AUTO;
  ASSERT_OK(cuStreamGetAttribute(other, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EXPECT_EQ(value.syncPolicy, CU_SYNC_POLICY_YIELD);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  ASSERT_OK(cuStreamIsCapturing(stream, &capture));
  EXPECT_EQ(capture, CU_STREAM_CAPTURE_STATUS_NONE);
  capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  ASSERT_OK(cuStreamGetCaptureInfo_v2(stream, &capture, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(capture, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_CU(cuStreamGetCaptureInfo_v2(stream, nullptr, nullptr, nullptr, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  CUcontext context = nullptr, current = nullptr;
  ASSERT_OK(cuStreamGetCtx_v2(stream, &context, nullptr));
  ASSERT_OK(cuCtxGetCurrent(&current));
  EXPECT_EQ(context, current);
}

TEST_F(StreamMemoryTest, CooperativeGrids) {
  Stream stream;
  const Words data(256);
  ASSERT_OK(cuMemsetD32_v2(data.at(), 0, 256));
  CUdeviceptr address = data.at();
  uint32_t n = 256, value = 9;
  void* params[] = {&address, &n, &value};
  ASSERT_OK(cuLaunchCooperativeKernel(function("add"), 2, 1, 1, 128, 1, 1, 0, stream, params));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(data.read(), std::vector<uint32_t>(256, 9));
  EXPECT_CU(cuLaunchCooperativeKernel(function("add"), 1 << 30, 1, 1, 128, 1, 1, 0, stream, params),
            CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

}  // namespace
}  // namespace vgpu::conformance
