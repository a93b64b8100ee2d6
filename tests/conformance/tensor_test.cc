// Tensor maps: what the host encodes is what kernels copy by.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

const char kTensorKernels[] = R"(
.version 8.0
.target sm_90
.address_size 64

// One box of 8 x 4 words at (x, y) into shared memory, to out, and back to (x + 8, y).
.visible .entry box(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 x, .param .u32 y)
{
  .shared .align 256 .b8 buffer[128];
  .shared .align 8 .b64 bar;
  .reg .pred %p<3>; .reg .b32 %t, %s, %bar, %x, %y, %v, %at; .reg .b64 %map, %out, %by, %state;
  mov.b64 %by, map;
  cvta.param.u64 %map, %by;
  ld.param.u64 %out, [out];
  ld.param.u32 %x, [x];
  ld.param.u32 %y, [y];
  mov.u32 %t, %tid.x;
  mov.u32 %s, buffer;
  mov.u32 %bar, bar;
  setp.ne.u32 %p0, %t, 0;
  @%p0 bra wait;
  mbarrier.init.shared::cta.b64 [%bar], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], 128;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%s], [%map, {%x, %y}], [%bar];
wait:
  bar.sync 0;
again:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%bar], 0;
  @!%p1 bra again;
  shl.b32 %at, %t, 2;
  add.u32 %v, %s, %at;
  ld.shared.u32 %v, [%v];
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %by, %t, 4;
  add.s64 %by, %by, %out;
  st.global.u32 [%by], %v;
  bar.sync 0;
  @%p0 bra done;
  add.u32 %x, %x, 8;
  cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%map, {%x, %y}], [%s];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  ret;
}
)";

constexpr uint32_t kWidth = 32, kHeight = 16;

class TensorTest : public ContextTest {
 protected:
  void SetUp() override {
    ContextTest::SetUp();
    if (HasFatalFailure()) return;
    int supported = 0;
    ASSERT_OK(
        cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, device_));
    if (supported == 0) GTEST_SKIP() << "the device has no tensor maps";
    ASSERT_OK(cuModuleLoadData(&module_, kTensorKernels));
    ASSERT_OK(cuModuleGetFunction(&box_, module_, "box"));
  }
  void TearDown() override {
    if (module_ != nullptr) EXPECT_OK(cuModuleUnload(module_));
    ContextTest::TearDown();
  }
  static std::vector<uint32_t> numbers(uint32_t first) {
    std::vector<uint32_t> all(kWidth * kHeight);
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  CUresult encode(CUdeviceptr data, CUtensorMapSwizzle swizzle) {
    const cuuint64_t sizes[2] = {kWidth, kHeight}, strides[1] = {kWidth * 4};
    const cuuint32_t box[2] = {8, 4}, steps[2] = {1, 1};
    return driver().cuTensorMapEncodeTiled(
        &map_, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2, reinterpret_cast<void*>(data), sizes, strides,
        box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  std::vector<uint32_t> run(const Words& out, uint32_t x, uint32_t y) {
    CUdeviceptr at = out.at();
    void* params[] = {&map_, &at, &x, &y};
    EXPECT_OK(cuLaunchKernel(box_, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
    return out.read();
  }

  CUmodule module_ = nullptr;
  CUfunction box_ = nullptr;
  alignas(64) CUtensorMap map_ = {};
};

TEST_F(TensorTest, ABoxGoesToSharedMemoryAndBack) {
  const Words data(kWidth * kHeight), out(32);
  data.write(numbers(0));
  ASSERT_EQ(encode(data.at(), CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
  const auto got = run(out, 16, 9);
  auto after = numbers(0);
  for (uint32_t y = 0; y < 4; ++y) {
    for (uint32_t x = 0; x < 8; ++x) {
      EXPECT_EQ(got[y * 8 + x], (9 + y) * kWidth + 16 + x);
      after[(9 + y) * kWidth + 24 + x] = got[y * 8 + x];
    }
  }
  EXPECT_EQ(data.read(), after);
}

TEST_F(TensorTest, WhatIsOutsideIsZero) {
  const Words data(kWidth * kHeight), out(32);
  data.write(numbers(1));
  ASSERT_EQ(encode(data.at(), CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
  const auto got = run(out, 28, 14);
  for (uint32_t y = 0; y < 4; ++y) {
    for (uint32_t x = 0; x < 8; ++x) {
      const bool inside = x < 4 && y < 2;
      EXPECT_EQ(got[y * 8 + x], inside ? (14 + y) * kWidth + 28 + x + 1 : 0);
    }
  }
  EXPECT_EQ(data.read(), numbers(1));  // the box beside it lies outside
}

TEST_F(TensorTest, ASwizzleExchangesPieces) {
  const Words data(kWidth * kHeight), out(32);
  data.write(numbers(0));
  ASSERT_EQ(encode(data.at(), CU_TENSOR_MAP_SWIZZLE_32B), CUDA_SUCCESS);
  const auto got = run(out, 0, 0);
  // Rows of 32 bytes: the bit above 128 bytes, which this buffer does not reach, would exchange
  // halves.
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], i / 8 * kWidth + i % 8);
}

TEST_F(TensorTest, AnotherAddressForTheSameShape) {
  const Words data(kWidth * kHeight), other(kWidth * kHeight), out(32);
  data.write(numbers(0));
  other.write(numbers(5000));
  ASSERT_EQ(encode(data.at(), CU_TENSOR_MAP_SWIZZLE_NONE), CUDA_SUCCESS);
  ASSERT_OK(cuTensorMapReplaceAddress(&map_, reinterpret_cast<void*>(other.at())));
  const auto got = run(out, 0, 3);
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], 5000 + (3 + i / 8) * kWidth + i % 8);
  EXPECT_EQ(data.read(), numbers(0));
}

}  // namespace
}  // namespace vgpu::conformance
