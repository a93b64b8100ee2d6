// Memset in its three widths, synchronous and in a stream.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using MemsetTest = ContextTest;

TEST_F(MemsetTest, Widths) {
  const Words words(8);
  EXPECT_OK(cuMemsetD32_v2(words.at(), 0x11223344, 8));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 0x11223344));
  EXPECT_OK(cuMemsetD16_v2(words.at(1), 0xabcd, 2));
  EXPECT_OK(cuMemsetD8_v2(words.at(3) + 1, 0x7f, 2));
  const auto values = words.read();
  EXPECT_EQ(values[0], 0x11223344U);
  EXPECT_EQ(values[1], 0xabcdabcdU);
  EXPECT_EQ(values[2], 0x11223344U);
  EXPECT_EQ(values[3], 0x117f7f44U);
  EXPECT_EQ(values[4], 0x11223344U);
}

TEST_F(MemsetTest, AsyncIsOrdered) {
  Stream stream;
  const Words words(1024);
  EXPECT_OK(cuMemsetD32Async(words.at(), 1, 1024, stream));
  EXPECT_OK(cuMemsetD16Async(words.at(), 2, 1024, stream));
  EXPECT_OK(cuMemsetD8Async(words.at(), 3, 1024, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  const auto values = words.read();
  EXPECT_EQ(values[255], 0x03030303U);
  EXPECT_EQ(values[256], 0x00020002U);
  EXPECT_EQ(values[512], 1U);
}

TEST_F(MemsetTest, Alignment) {
  const Words words(4);
  EXPECT_CU(cuMemsetD16_v2(words.at() + 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD32_v2(words.at() + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD32Async(words.at() + 2, 0, 1, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemsetTest, BadRanges) {
  const Words words(1 << 20);
  EXPECT_OK(cuMemsetD8_v2(words.at(), 0, 0));
  EXPECT_CU(cuMemsetD8_v2(0, 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD8_v2(kNowhere, 0, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD8_v2(words.at(), 0, words.bytes() + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemsetD32_v2(words.at(), 0, ~size_t{0} / 4 + 2), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemsetTest, WrongStream) {
  const Words words(4);
  EXPECT_CU(cuMemsetD8Async(words.at(), 0, 4, garbage_handle<CUstream>()),
            CUDA_ERROR_INVALID_HANDLE);
}

// What the host reads in place is filled when a function without a stream returns.
TEST_F(MemsetTest, FillsHostMemoryBeforeItReturns) {
  SKIP_UNLESS_HOST_MEMORY_IS_MAPPED();
  constexpr size_t kWords = size_t{4} << 20;
  void* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(&host, kWords * 4, CU_MEMHOSTALLOC_DEVICEMAP));
  const auto* words = static_cast<const uint32_t*>(host);
  for (uint32_t value = 1; value <= 5; ++value) {
    ASSERT_OK(cuMemsetD32_v2(reinterpret_cast<CUdeviceptr>(host), value, kWords));
    ASSERT_EQ(words[kWords - 1], value);
  }
  EXPECT_OK(cuMemFreeHost(host));
}

}  // namespace
}  // namespace vgpu::conformance
