// Tensor maps: what the host encodes is what kernels copy by.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <string>

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

// A column of 8 pixels from (w, h) of image 0 on, one pixel to the right and below, to out.
.visible .entry pixels(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 w,
                       .param .u32 h)
{
  .shared .align 256 .b8 buffer[128];
  .shared .align 8 .b64 bar;
  .reg .pred %p<3>; .reg .b16 %one; .reg .b32 %t, %s, %bar, %w, %h, %zero, %v, %at;
  .reg .b64 %map, %out, %by, %state;
  mov.b64 %by, map;
  cvta.param.u64 %map, %by;
  ld.param.u64 %out, [out];
  ld.param.u32 %w, [w];
  ld.param.u32 %h, [h];
  mov.u32 %zero, 0;
  mov.u16 %one, 1;
  mov.u32 %t, %tid.x;
  mov.u32 %s, buffer;
  mov.u32 %bar, bar;
  setp.ne.u32 %p0, %t, 0;
  @%p0 bra wait;
  mbarrier.init.shared::cta.b64 [%bar], 1;
  fence.proxy.async.shared::cta;
  mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%bar], 128;
  cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes
    [%s], [%map, {%zero, %w, %h, %zero}], [%bar], {%one, %one};
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

// Two images of 4 x 3 pixels of 4 words, for a filter that looks one pixel beyond each edge: a
// column begins in the last but one window of the first image's second row, and goes on in the
// third row and in the second image.
TEST_F(TensorTest, AColumnOfPixelsGoesFromRowToRowAndFromImageToImage) {
  constexpr uint32_t kPixels = 4 * 3 * 2;
  const Words data(kPixels * 4), out(32);
  std::vector<uint32_t> words(kPixels * 4);
  std::iota(words.begin(), words.end(), 1);
  data.write(words);
  const cuuint64_t sizes[4] = {4, 4, 3, 2}, strides[3] = {16, 64, 192};
  const int lower[2] = {-1, -1}, upper[2] = {-1, -1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  ASSERT_OK(cuTensorMapEncodeIm2col(
      &map_, CU_TENSOR_MAP_DATA_TYPE_UINT32, 4, reinterpret_cast<void*>(data.at()), sizes, strides,
      lower, upper, 4, 8, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  CUfunction pixels;
  ASSERT_OK(cuModuleGetFunction(&pixels, module_, "pixels"));
  CUdeviceptr at = out.at();
  int w = 1, h = 0;
  void* params[] = {&map_, &at, &w, &h};
  ASSERT_OK(cuLaunchKernel(pixels, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
  const auto got = out.read();
  const uint32_t first[8] = {words[(1 * 4 + 2) * 4], words[(1 * 4 + 3) * 4], words[(2 * 4 + 0) * 4],
                             words[(2 * 4 + 1) * 4], words[(2 * 4 + 2) * 4], words[(2 * 4 + 3) * 4],
                             words[(3 * 4 + 0) * 4], words[(3 * 4 + 1) * 4]};
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], first[i / 4] + i % 4) << i;
}

TEST_F(TensorTest, WhatIsForOneArchitectureIsNamedInTheLog) {
  const char text[] =
      ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
      "    wgmma.fence.sync.aligned;\n    ret;\n}\n";
  char log[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module;
  EXPECT_EQ(driver().cuModuleLoadDataEx(&module, text, 2, options, values), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(std::string(log).find("line 6, column 5"), std::string::npos) << log;
  EXPECT_NE(std::string(log).find("wgmma.fence.sync.aligned"), std::string::npos) << log;
}

}  // namespace
}  // namespace vgpu::conformance
