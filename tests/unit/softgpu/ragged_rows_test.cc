// Which kernels run their lanes one after the other.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "softgpu/passes/kernel.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

// A kernel whose threads go through `loop` %r2 times, each as often as a word of its own says.
// %rd3: a place of the thread's own; %rd1: the same for all.
std::string kernel(const std::string& loop) {
  return R"(
.version 9.0
.target sm_75
.address_size 64
.visible .entry k(.param .u64 a)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 tile[128];
  ld.param.u64 %rd1, [a];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.global.u32 %r2, [%rd2];
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd3, %rd1, %rd3;
  mov.u32 %r3, 0;
  mov.u32 %r6, 0;
$again:
)" + loop +
         R"(
  sub.u32 %r2, %r2, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra $again;
  st.global.u32 [%rd2], %r3;
  ret;
}
)";
}

bool lane_by_lane(const std::string& loop, const Variant& variant = {.row = 32}) {
  Diagnostic error;
  const auto program = Program::parse(kernel(loop), &error);
  EXPECT_NE(program, nullptr) << error.line << ": " << error.text;
  if (program == nullptr) return false;
  Kernel built;
  EXPECT_TRUE(build_kernel(program->module(), program->module().functions[0], &built, &error));
  analyse(&built, variant);
  return built.lane_by_lane;
}

constexpr char kRow[] = R"(
  ld.global.u32 %r4, [%rd3];
  add.s32 %r3, %r3, %r4;
  add.s64 %rd3, %rd3, 4;
)";

TEST(RaggedRows, EachWalksItsOwn) {
  EXPECT_TRUE(lane_by_lane(kRow));
  EXPECT_TRUE(lane_by_lane(kRow, {.row = 0}));
  EXPECT_TRUE(lane_by_lane(R"(
  ld.global.u32 %r4, [%rd3];
  mul.wide.u32 %rd4, %r4, 4;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.u32 %r5, [%rd5];
  add.s32 %r3, %r3, %r5;
  add.s64 %rd3, %rd3, 4;
)")) << "a word that is found by another";
}

TEST(RaggedRows, NotWhereTheWarpIsWatched) {
  EXPECT_FALSE(lane_by_lane(kRow, {.row = 32, .profile = true}));
  EXPECT_FALSE(lane_by_lane(kRow, {.row = 32, .strict = true}));
  EXPECT_FALSE(lane_by_lane(kRow, {.row = 32, .clustered = true}));
  EXPECT_FALSE(lane_by_lane(kRow, {.row = 32, .lanes = 1}));
}

// Where vectors do more, or the lanes know of each other, or wait.
TEST(RaggedRows, NotThese) {
  EXPECT_FALSE(lane_by_lane("  mad.lo.u32 %r3, %r3, 3, 1;\n")) << "nothing is read";
  EXPECT_FALSE(lane_by_lane("  ld.global.u32 %r4, [%rd2];\n  add.s32 %r3, %r3, %r4;\n"))
      << "neighbours";
  EXPECT_FALSE(lane_by_lane("  ld.global.u64 %rd3, [%rd3];\n  add.s32 %r3, %r3, 1;\n")) << "a list";
  EXPECT_FALSE(lane_by_lane(R"(
  ld.global.u32 %r4, [%rd3];
  setp.gt.u32 %p2, %r4, %r3;
  @%p2 add.s64 %rd3, %rd3, 4;
)")) << "where it goes depends on what it has read";
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  atom.global.add.u32 %r5, [%rd1], 1;\n"));
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  bar.sync 0;\n"));
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  shfl.sync.idx.b32 %r5, %r4, 0, 31, -1;\n"));
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  mov.u32 %r5, %laneid;\n"));
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  st.global.u32 [%rd2], %r3;\n"));
  EXPECT_FALSE(lane_by_lane(std::string(kRow) + "  ld.shared.u32 %r5, [tile];\n"));
  EXPECT_FALSE(lane_by_lane("  ld.volatile.global.u32 %r4, [%rd3];\n  add.s32 %r3, %r3, %r4;\n"));
  std::string work = kRow;
  for (int i = 0; i < 7; ++i) work += "  mad.lo.u32 %r6, %r6, 3, %r4;\n";
  EXPECT_FALSE(lane_by_lane(work)) << "much to do with each word";
}

}  // namespace
}  // namespace vgpu::softgpu
