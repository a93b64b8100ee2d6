// PTX files through parser, passes, code generation and block execution.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "softgpu/exec/block.h"
#include "softgpu/program.h"

namespace vgpu::softgpu {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(std::string(VGPU_KERNELS) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Vecadd : public testing::TestWithParam<uint32_t> {};

TEST_P(Vecadd, AddsExactlyTheFirstN) {
  constexpr uint32_t kRoom = 1400, kCount = 1000, kBlocks = 4;
  const Dim3 block{GetParam(), 1, 1};
  Diagnostic error;
  auto program = Program::parse(text_of("vecadd.ptx"), &error);
  ASSERT_NE(program, nullptr) << error.line << ": " << error.text;
  auto code = LoadedCode::load(program, [](std::string_view) { return uint64_t{0}; });
  const CompiledKernel* kernel = code->compile(0, block, &error);
  ASSERT_NE(kernel, nullptr) << error.line << ": " << error.text;
  std::vector<float> a(kRoom), b(kRoom), c(kRoom, -1);
  for (uint32_t i = 0; i < kRoom; ++i)
    a[i] = static_cast<float>(i), b[i] = 0.5f * static_cast<float>(i);
  struct {
    const float *a, *b;
    float* c;
    uint32_t n;
  } params{a.data(), b.data(), c.data(), kCount};
  GridParams grid;
  grid.grid = {kBlocks, 1, 1};
  grid.block = block;
  grid.params = reinterpret_cast<const uint8_t*>(&params);
  BlockRunner runner;
  for (uint32_t x = 0; x < kBlocks; ++x) {
    ASSERT_TRUE(runner.begin(*kernel, grid, {x, 0, 0}, 0));
    ASSERT_EQ(runner.run(), BlockStep::kFinished) << runner.fault().text;
  }
  const uint32_t done = std::min(kCount, kBlocks * block.x);
  for (uint32_t i = 0; i < kRoom; ++i)
    ASSERT_EQ(c[i], i < done ? 1.5f * static_cast<float>(i) : -1) << i;
}

INSTANTIATE_TEST_SUITE_P(BlockSizes, Vecadd, testing::Values(256u, 250u, 32u, 7u, 1u));

TEST(Kernels, UnknownOpcodeIsADiagnosticWithItsLine) {
  Diagnostic error;
  auto program = Program::parse(
      ".version 9.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n  frobnicate.u32;\n  "
      "ret;\n}\n",
      &error);
  ASSERT_NE(program, nullptr) << error.text;
  auto code = LoadedCode::load(program, [](std::string_view) { return uint64_t{0}; });
  EXPECT_EQ(code->compile(0, {32, 1, 1}, &error), nullptr);
  EXPECT_EQ(error.line, 6);
}

}  // namespace
}  // namespace vgpu::softgpu
