// Instrumented kernels count what theory says.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "softgpu/exec/block.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

// Before anything asks whether kernels are to be instrumented.
const int kWanted = ::setenv("VGPU_SOFTGPU_PROFILE", "/dev/null", 1);

constexpr uint32_t kEdge = 32;

constexpr char kKernels[] = R"(
.version 9.0
.target sm_75
.address_size 64
// out[x][y] = in[y][x]: one row for each block
.visible .entry naive(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<5>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.s32 %r3, %r2, 32, %r1;
  mul.wide.s32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  ld.global.f32 %f1, [%rd4];
  mad.lo.s32 %r4, %r1, 32, %r2;
  mul.wide.s32 %rd5, %r4, 4;
  add.s64 %rd6, %rd2, %rd5;
  st.global.f32 [%rd6], %f1;
  ret;
}
// One warp moves the whole tile through shared memory, row by row; the reads go down the columns.
.visible .entry tiled(.param .u64 in, .param .u64 out, .param .u32 pitch)
{
  .shared .align 4 .b8 tile[4224];
  .reg .pred %p<3>;
  .reg .b32 %r<14>;
  .reg .f32 %f<3>;
  .reg .b64 %rd<9>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r9, [pitch];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r2, tile;
  mov.u32 %r3, 0;
  shl.b32 %r4, %r1, 2;
  mul.lo.s32 %r10, %r1, %r9;
  add.s32 %r5, %r2, %r4;
  add.s32 %r11, %r2, %r10;
fill:
  ld.global.f32 %f1, [%rd4];
  st.shared.f32 [%r5], %f1;
  add.s64 %rd4, %rd4, 128;
  add.s32 %r5, %r5, %r9;
  add.s32 %r3, %r3, 1;
  setp.lt.s32 %p1, %r3, 32;
  @%p1 bra fill;
  bar.sync 0;
  mov.u32 %r3, 0;
drain:
  ld.shared.f32 %f2, [%r11];
  st.global.f32 [%rd5], %f2;
  add.s64 %rd5, %rd5, 128;
  add.s32 %r11, %r11, 4;
  add.s32 %r3, %r3, 1;
  setp.lt.s32 %p2, %r3, 32;
  @%p2 bra drain;
  ret;
}
// Adds 1 or 2, by a bit of the thread's index (bit 0: neighbours differ; bit 5: warps differ).
.visible .entry branches(.param .u64 out, .param .u32 bit)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r2, [bit];
  mov.u32 %r1, %tid.x;
  shr.u32 %r3, %r1, %r2;
  and.b32 %r3, %r3, 1;
  setp.eq.s32 %p1, %r3, 0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  @%p1 bra even;
  mov.u32 %r4, 2;
  st.global.u32 [%rd3], %r4;
  bra done;
even:
  mov.u32 %r4, 1;
  st.global.u32 [%rd3], %r4;
done:
  ret;
}
)";

class ProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    Diagnostic error;
    program_ = Program::parse(kKernels, &error);
    ASSERT_NE(program_, nullptr) << error.line << ": " << error.text;
    code_ = LoadedCode::load(program_, [](std::string_view) { return uint64_t{0}; });
  }

  // Runs all blocks; nullptr when something failed.
  std::unique_ptr<ProfileCounters> run(uint32_t index, const Dim3& grid, const Dim3& block,
                                       const void* params) {
    Diagnostic error;
    kernel_ = code_->compile(index, block, &error);
    EXPECT_NE(kernel_, nullptr) << error.line << ": " << error.text;
    if (kernel_ == nullptr) return nullptr;
    auto counters = std::make_unique<ProfileCounters>(kernel_->mix.size());
    GridParams shape;
    shape.grid = grid;
    shape.block = block;
    shape.params = static_cast<const uint8_t*>(params);
    shape.profile = counters.get();
    BlockRunner runner;
    for (uint32_t x = 0; x < grid.x; ++x) {
      EXPECT_TRUE(runner.begin(*kernel_, shape, {x, 0, 0}, 0));
      EXPECT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
    }
    return counters;
  }

  std::shared_ptr<const Program> program_;
  std::unique_ptr<LoadedCode> code_;
  const CompiledKernel* kernel_ = nullptr;
  alignas(128) float in_[kEdge * kEdge] = {};
  alignas(128) float out_[kEdge * kEdge] = {};
};

struct TransposeParams {
  const float* in;
  float* out;
  uint32_t pitch;
};

// Loads of neighbours need 4 sectors of 32 bytes, stores 128 bytes apart one for each thread.
TEST_F(ProfileTest, NaiveTransposeStoresOneSectorPerThread) {
  const TransposeParams params{in_, out_, 0};
  const auto counters = run(0, {kEdge, 1, 1}, {32, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->global_requests, 2 * kEdge);
  EXPECT_EQ(counters->global_sectors, kEdge * (4 + 32));
  EXPECT_EQ(counters->global_ideal, kEdge * (4 + 4));
  EXPECT_EQ(counters->global_bytes, 2 * kEdge * 128);
  EXPECT_EQ(counters->shared_requests, 0u);
}

TEST_F(ProfileTest, TiledTransposeIsCoalescedAndConflicts) {
  const TransposeParams params{in_, out_, 128};
  const auto counters = run(1, {1, 1, 1}, {32, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->global_sectors, 2 * kEdge * 4);
  EXPECT_EQ(counters->global_sectors, counters->global_ideal);
  EXPECT_EQ(counters->shared_requests, 2 * kEdge);
  EXPECT_EQ(counters->shared_passes, kEdge * (1 + 32)) << "32-way conflicts of the reads";
  EXPECT_EQ(counters->shared_ideal, 2 * kEdge);
}

TEST_F(ProfileTest, PaddedTileHasNoConflicts) {
  const TransposeParams params{in_, out_, 132};
  for (uint32_t i = 0; i < kEdge * kEdge; ++i) in_[i] = static_cast<float>(i);
  const auto counters = run(1, {1, 1, 1}, {32, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->shared_passes, counters->shared_ideal);
  for (uint32_t i = 0; i < kEdge * kEdge; ++i)
    ASSERT_EQ(out_[i], in_[i % kEdge * kEdge + i / kEdge]) << i;
}

TEST_F(ProfileTest, BranchesDivergeInsideWarpsOnly) {
  struct {
    float* out;
    uint32_t bit;
  } params{out_, 0};
  auto counters = run(2, {1, 1, 1}, {128, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->branches, 4u);
  EXPECT_EQ(counters->divergent_branches, 4u);
  params.bit = 5;
  counters = run(2, {1, 1, 1}, {128, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  EXPECT_EQ(counters->branches, 4u);
  EXPECT_EQ(counters->divergent_branches, 0u);
}

// The instructions that ran are those of the blocks that ran.
TEST_F(ProfileTest, InstructionMixFollowsTheBlocks) {
  const TransposeParams params{in_, out_, 128};
  const auto counters = run(1, {1, 1, 1}, {32, 1, 1}, &params);
  ASSERT_NE(counters, nullptr);
  uint64_t global = 0, shared = 0, barriers = 0;
  for (size_t b = 0; b < kernel_->mix.size(); ++b) {
    const uint64_t warps = counters->warps[b];
    EXPECT_EQ(counters->lanes[b], warps * 32);
    global += warps * kernel_->mix[b].count[static_cast<size_t>(InstructionClass::kGlobal)];
    shared += warps * kernel_->mix[b].count[static_cast<size_t>(InstructionClass::kShared)];
    barriers += warps * kernel_->mix[b].count[static_cast<size_t>(InstructionClass::kBarrier)];
  }
  EXPECT_EQ(global, 2 * kEdge);
  EXPECT_EQ(shared, 2 * kEdge);
  EXPECT_EQ(barriers, 1u);
}

}  // namespace
}  // namespace vgpu::softgpu
