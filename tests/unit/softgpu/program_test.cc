// What is known of a program before it is compiled: its limits, its memory, its names.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/program.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace vgpu::softgpu {
namespace {

constexpr char kHead[] = ".version 9.0\n.target sm_75\n.address_size 64\n";

std::shared_ptr<const Program> parse(const std::string& body) {
  Diagnostic error;
  auto program = Program::parse(kHead + body, &error);
  EXPECT_NE(program, nullptr) << error.line << ": " << error.text;
  return program;
}

std::string refusal(const std::string& body) {
  Diagnostic error;
  EXPECT_EQ(Program::parse(kHead + body, &error), nullptr);
  return error.text;
}

// Kernels that are larger than kernels may be, in every state space.
TEST(Limits, OfAKernel) {
  for (const char* body : {
           ".visible .entry k(.param .b8 a[4294967280], .param .b8 b[32]) { ret; }",
           ".visible .entry k(.param .b8 a[32768]) { ret; }",
           ".visible .entry k() { .local .b8 a[4294967296]; ret; }",
           ".visible .entry k() { .local .b8 a[600000]; ret; }",
           ".shared .b8 a[4294967296]; .visible .entry k() { ret; }",
           ".visible .entry k() { .shared .b8 a[4294967290]; .shared .b8 b[8]; ret; }",
           ".func f(.param .b8 a[4294967295], .param .b8 b[4294967295]) { ret; }",
       }) {
    EXPECT_NE(refusal(body), "") << body;
  }
  EXPECT_NE(refusal(".visible .entry k() { .shared .b8 a[65536]; .reg .b32 %r<2>;\n"
                    " mov.u32 %r1, a; ret; }")
                .find("static shared memory"),
            std::string::npos);
  EXPECT_NE(parse(".visible .entry k(.param .b8 a[32764]) { ret; }"), nullptr);
}

TEST(Limits, OfNesting) {
  std::string deep = ".visible .entry k() { .reg .b32 %r<2>; ld.u32 %r1, ";
  for (int i = 0; i < 300'000; ++i) deep += "[a,{";
  EXPECT_NE(refusal(deep), "");
}

// A call through a pointer reaches what another kernel points to.
TEST(Digests, KnowWhatIsPointedTo) {
  const auto module = [](const std::string& stored) {
    return parse(
        ".global .u64 place;\n"
        ".func f() { ret; }\n.func g() { ret; }\n"
        ".visible .entry calls() { .reg .b64 %rd<2>; ld.global.u64 %rd1, [place];\n"
        " p: .callprototype ()_();\n call %rd1, (), p; ret; }\n"
        ".visible .entry stores() { .reg .b64 %rd<2>; mov.u64 %rd1, " +
        stored + "; st.global.u64 [place], %rd1; ret; }\n");
  };
  const auto one = module("f"), same = module("f"), other = module("g");
  EXPECT_EQ(one->digest(0), same->digest(0));
  EXPECT_NE(one->digest(0), other->digest(0));
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

// A call through a pointer reaches what is pointed to, not what other kernels have.
TEST(SharedMemory, ACallWithoutANameReachesWhatIsPointedTo) {
  const auto program = parse(R"(
.global .u64 place;
.func pointed()
{
  .shared .align 8 .b8 inside[1000];
  .reg .b32 %r<2>;
  mov.u32 %r1, inside;
  ret;
}
.visible .entry calls()
{
  .reg .b64 %rd<2>;
  ld.global.u64 %rd1, [place];
  p: .callprototype ()_();
  call %rd1, (), p;
  ret;
}
.visible .entry other()
{
  .shared .align 16 .b8 own[40000];
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u32 %r1, own;
  mov.u64 %rd1, pointed;
  st.global.u64 [place], %rd1;
  ret;
}
)");
  EXPECT_EQ(program->kernels()[0].static_shared_bytes, 1000u);
}

// Compilers number strings alike in every file: what is renamed must not get another's name.
TEST(Linking, LocalNamesThatLookNumbered) {
  const std::string strings =
      ".global .align 1 .b8 $str[2] = {65, 0};\n.global .align 1 .b8 $str$1[2] = {66, 0};\n"
      ".global .align 1 .b8 $str$2[2] = {67, 0};\n.global .align 1 .b8 $str$3[2] = {68, 0};\n";
  const std::string first = kHead + strings + ".visible .entry one() { ret; }";
  const std::string second = kHead + strings + ".visible .entry two() { ret; }";
  Diagnostic error;
  const auto program = Program::link({first, second}, &error);
  ASSERT_NE(program, nullptr) << error.text;
  EXPECT_EQ(program->globals().size(), 8u);
  std::set<std::string> names;
  for (const auto& global : program->globals()) names.insert(global.name);
  EXPECT_EQ(names.size(), 8u);
}

}  // namespace
}  // namespace vgpu::softgpu
