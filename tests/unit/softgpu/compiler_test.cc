// What the compiler tells about kernels, and what it does with their memory.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "softgpu/exec/block.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

std::shared_ptr<const Program> parse(const std::string& body) {
  Diagnostic error;
  auto program = Program::parse(kHead + body, &error);
  EXPECT_NE(program, nullptr) << error.line << ": " << error.text;
  return program;
}

TEST(SharedMemory, AKernelHasOnlyWhatItNames) {
  const auto program = parse(R"(
.shared .align 4 .b8 common[64];
.func helper()
{
  .shared .align 8 .b8 inside[40000];
  .reg .b32 %r<2>;
  mov.u32 %r1, inside;
  ret;
}
.visible .entry first()
{
  .shared .align 16 .b8 own[30000];
  .reg .b32 %r<2>;
  mov.u32 %r1, own;
  ret;
}
.visible .entry second()
{
  .reg .b32 %r<2>;
  ld.shared.u32 %r1, [common+4];
  call helper;
  ret;
}
.visible .entry third()
{
  ret;
}
)");
  ASSERT_EQ(program->kernels().size(), 3u);
  EXPECT_EQ(program->kernels()[0].static_shared_bytes, 30000u);
  EXPECT_EQ(program->kernels()[1].static_shared_bytes, 64u + 40000u);
  EXPECT_EQ(program->kernels()[2].static_shared_bytes, 0u);
}

// The window of the second kernel holds its variable, and not what the first one declared before
// it: otherwise the store would fall behind the window's end.
TEST(SharedMemory, VariablesLieInsideTheWindow) {
  const auto program = parse(R"(
.visible .entry first()
{
  .shared .align 4 .b8 large[40000];
  .reg .b32 %r<2>;
  mov.u32 %r1, large;
  ret;
}
.visible .entry second(.param .u64 out)
{
  .shared .align 4 .b8 small[16];
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, 7;
  st.shared.u32 [small+8], %r1;
  mov.u32 %r2, small;
  ld.param.u64 %rd1, [out];
  st.global.u32 [%rd1], %r2;
  ld.shared.u32 %r2, [%r2+8];
  st.global.u32 [%rd1+4], %r2;
  ret;
}
)");
  auto code = LoadedCode::load(program, [](std::string_view) { return uint64_t{0}; });
  Diagnostic error;
  const CompiledKernel* const kernel = code->compile(1, {1, 1, 1}, &error);
  ASSERT_NE(kernel, nullptr) << error.line << ": " << error.text;
  EXPECT_EQ(kernel->shared_bytes, 16u);
  uint32_t out[2] = {99, 99};
  const uint64_t param = reinterpret_cast<uint64_t>(out);
  GridParams grid;
  grid.params = reinterpret_cast<const uint8_t*>(&param);
  BlockRunner runner;
  ASSERT_TRUE(runner.begin(*kernel, grid, {0, 0, 0}, 0));
  ASSERT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
  EXPECT_EQ(out[0], 0u);
  EXPECT_EQ(out[1], 7u);
}

}  // namespace
}  // namespace vgpu::softgpu
