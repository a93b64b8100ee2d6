// Copies: every direction and size, order within a stream, what is refused.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using MemcpyTest = ContextTest;

std::vector<uint8_t> pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> data(bytes);
  uint32_t state = seed * 2654435761U + 1;
  for (uint8_t& byte : data) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return data;
}

class MemcpySizes : public ContextTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(MemcpySizes, ThereAndBackAtOddAddresses) {
  const size_t bytes = GetParam();
  const auto in = pattern(bytes, 1);
  std::vector<uint8_t> out(bytes + 2, 0xee);
  CUdeviceptr first = 0, second = 0;
  ASSERT_OK(cuMemAlloc_v2(&first, bytes + 16));
  ASSERT_OK(cuMemAlloc_v2(&second, bytes + 16));
  EXPECT_OK(cuMemcpyHtoD_v2(first + 1, in.data(), bytes));
  EXPECT_OK(cuMemcpyDtoD_v2(second + 3, first + 1, bytes));
  EXPECT_OK(cuMemcpyDtoH_v2(out.data() + 1, second + 3, bytes));
  EXPECT_EQ(out.front(), 0xee);
  EXPECT_EQ(out.back(), 0xee);
  EXPECT_TRUE(std::equal(in.begin(), in.end(), out.begin() + 1));
  EXPECT_OK(cuMemFree_v2(first));
  EXPECT_OK(cuMemFree_v2(second));
}

INSTANTIATE_TEST_SUITE_P(MemcpyTest, MemcpySizes,
                         ::testing::Values(1, 3, 64, 255, 4000, 4096, 4097, 65537, (1 << 20) - 1,
                                           (1 << 20) + 1, (5 << 20) + 3, 33 << 20));

// Blocking copies with one of another stream between them: each is there for whoever comes later.
TEST_F(MemcpyTest, WhatHasReturnedIsThereForEveryStream) {
  constexpr size_t kWords = 64;
  const Words first(kWords), second(kWords), third(kWords), fourth(kWords);
  CUstream writes = nullptr, reads = nullptr;
  ASSERT_OK(cuStreamCreate(&writes, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamCreate(&reads, CU_STREAM_NON_BLOCKING));
  for (uint32_t round = 1; round <= 20; ++round) {
    const std::vector<uint32_t> in(kWords, round);
    std::vector<uint32_t> out(kWords);
    const size_t bytes = kWords * sizeof(uint32_t);
    ASSERT_OK(cuMemcpyHtoD_v2(first.at(), in.data(), bytes));
    ASSERT_OK(cuMemcpyHtoDAsync_v2(second.at(), in.data(), bytes, writes));
    ASSERT_OK(cuMemcpyHtoD_v2(third.at(), in.data(), bytes));
    ASSERT_OK(cuMemcpyHtoD_v2(fourth.at(), in.data(), bytes));
    ASSERT_OK(cuMemcpyDtoHAsync_v2(out.data(), fourth.at(), bytes, reads));
    ASSERT_OK(cuStreamSynchronize(reads));
    ASSERT_EQ(out, in);
  }
  EXPECT_OK(cuStreamDestroy_v2(writes));
  EXPECT_OK(cuStreamDestroy_v2(reads));
}

TEST_F(MemcpyTest, NoBytesIsFine) {
  const Words words(4);
  EXPECT_OK(cuMemcpyHtoD_v2(words.at(), &words, 0));
  EXPECT_OK(cuMemcpyDtoH_v2(nullptr, words.at(), 0));
  EXPECT_OK(cuMemcpyDtoDAsync_v2(words.at(), words.at(), 0, nullptr));
}

TEST_F(MemcpyTest, BadAddresses) {
  const Words words(64);
  char host[512] = {};
  EXPECT_CU(cuMemcpyHtoD_v2(words.at(), nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(nullptr, words.at(), 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoD_v2(0, host, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoD_v2(kNowhere, host, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(host, kNowhere, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoD_v2(words.at(), kNowhere, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyHtoD_v2(words.at(), host, ~size_t{0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(words.read().size(), 64U);
}

TEST_F(MemcpyTest, PastTheEndAndAfterFree) {
  CUdeviceptr address = 0;
  constexpr size_t kBytes = 4 << 20;
  ASSERT_OK(cuMemAlloc_v2(&address, kBytes));
  std::vector<char> host(2 * kBytes);
  EXPECT_CU(cuMemcpyHtoD_v2(address + 1, host.data(), kBytes), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuMemcpyDtoH_v2(host.data(), address + kBytes - 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuMemFree_v2(address));
  EXPECT_CU(cuMemcpyHtoD_v2(address, host.data(), 16), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemcpyTest, UnifiedCopyFindsTheDirection) {
  const Words first(100), second(100);
  std::vector<uint32_t> in(100), out(100);
  std::iota(in.begin(), in.end(), 5);
  const auto unified = [](const void* host) { return reinterpret_cast<CUdeviceptr>(host); };
  EXPECT_OK(cuMemcpy(first.at(), unified(in.data()), 400));
  EXPECT_OK(cuMemcpy(second.at(), first.at(), 400));
  EXPECT_OK(cuMemcpy(unified(out.data()), second.at(), 400));
  EXPECT_EQ(in, out);
  std::vector<uint32_t> again(100);
  Stream stream;
  EXPECT_OK(cuMemcpyAsync(unified(again.data()), first.at(), 400, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(again, in);
}

TEST_F(MemcpyTest, AsyncIsOrderedAndPageableSourceMayChange) {
  Stream stream;
  const Words words(1000);
  std::vector<uint32_t> source(1000), out(1000);
  for (uint32_t round = 0; round < 50; ++round) {
    std::fill(source.begin(), source.end(), round);
    EXPECT_OK(cuMemcpyHtoDAsync_v2(words.at(), source.data(), words.bytes(), stream));
    std::fill(source.begin(), source.end(), 0xffffffff);  // pageable: already staged
    EXPECT_OK(cuMemcpyDtoHAsync_v2(out.data(), words.at(), words.bytes(), stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(out.front(), round);
    EXPECT_EQ(out.back(), round);
  }
}

TEST_F(MemcpyTest, PinnedCopiesComplete) {
  constexpr size_t kBytes = (3 << 20) + 7;
  uint8_t* host = nullptr;
  ASSERT_OK(cuMemHostAlloc(reinterpret_cast<void**>(&host), 2 * kBytes, 0));
  const auto in = pattern(kBytes, 9);
  std::copy(in.begin(), in.end(), host);
  CUdeviceptr address = 0;
  ASSERT_OK(cuMemAlloc_v2(&address, kBytes));
  {
    Stream stream;
    EXPECT_OK(cuMemcpyHtoDAsync_v2(address, host, kBytes, stream));
    EXPECT_OK(cuMemcpyDtoHAsync_v2(host + kBytes, address, kBytes, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_TRUE(std::equal(in.begin(), in.end(), host + kBytes));
  EXPECT_OK(cuMemFree_v2(address));
  EXPECT_OK(cuMemFreeHost(host));
}

TEST_F(MemcpyTest, WrongStream) {
  const Words words(4);
  uint32_t host[4] = {};
  CUstream stale = nullptr;
  ASSERT_OK(cuStreamCreate(&stale, 0));
  ASSERT_OK(cuStreamDestroy_v2(stale));
  EXPECT_CU(cuMemcpyHtoDAsync_v2(words.at(), host, 16, stale), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuMemcpyHtoDAsync_v2(words.at(), host, 16, garbage_handle<CUstream>()),
            CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace vgpu::conformance
