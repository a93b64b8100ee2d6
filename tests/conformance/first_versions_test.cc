// First versions of functions whose sizes had 32 bits.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

using FirstVersionsTest = ContextTest;

TEST_F(FirstVersionsTest, SizesOf32Bits) {
  size_t wide = 0, wide_free = 0;
  unsigned total = 0, free = 0, all_of_it = 0;
  ASSERT_OK(cuDeviceTotalMem_v2(&wide, device_));
  ASSERT_OK(cuDeviceTotalMem(&all_of_it, device_));
  EXPECT_EQ(all_of_it, wide > UINT32_MAX ? UINT32_MAX : wide);
  EXPECT_CU(cuDeviceTotalMem(nullptr, device_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuDeviceTotalMem(&all_of_it, 99), CUDA_ERROR_INVALID_DEVICE);
  ASSERT_OK(cuMemGetInfo_v2(&wide_free, &wide));
  ASSERT_OK(cuMemGetInfo(&free, &total));
  EXPECT_EQ(free, wide_free > UINT32_MAX ? UINT32_MAX : wide_free);
  EXPECT_EQ(total, wide > UINT32_MAX ? UINT32_MAX : wide);
  void* memory = nullptr;
  ASSERT_OK(cuMemAllocHost(&memory, 4096));
  std::memset(memory, 7, 4096);
  EXPECT_OK(cuMemFreeHost(memory));
  EXPECT_CU(cuMemAllocHost(&memory, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FirstVersionsTest, CopiesOfArrays) {
  CUDA_ARRAY_DESCRIPTOR shape = {};
  shape.Width = 16;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  shape.NumChannels = 1;
  CUarray from = nullptr, to = nullptr;
  ASSERT_OK(cuArrayCreate_v2(&from, &shape));
  ASSERT_OK(cuArrayCreate_v2(&to, &shape));
  std::vector<uint32_t> in(16), out(16, 0);
  for (uint32_t i = 0; i < 16; ++i) in[i] = i;
  Stream stream;
  ASSERT_OK(cuMemcpyHtoA(from, 0, in.data(), 64));
  ASSERT_OK(cuMemcpyAtoA(to, 8, from, 4, 32));
  ASSERT_OK(cuMemcpyAtoH(out.data(), to, 8, 32));
  EXPECT_EQ(std::vector<uint32_t>(out.begin(), out.begin() + 8),
            std::vector<uint32_t>(in.begin() + 1, in.begin() + 9));
  ASSERT_OK(cuMemcpyHtoAAsync(to, 4, in.data() + 8, 32, stream));
  ASSERT_OK(cuMemcpyAtoHAsync(out.data(), to, 4, 32, stream));
  ASSERT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(std::vector<uint32_t>(out.begin(), out.begin() + 8),
            std::vector<uint32_t>(in.begin() + 8, in.end()));
  EXPECT_CU(cuMemcpyAtoH(out.data(), to, 60, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuArrayDestroy(from));
  EXPECT_OK(cuArrayDestroy(to));
}

}  // namespace
}  // namespace vgpu::conformance
