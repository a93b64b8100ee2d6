// How much memory variables take, read from texts and cubins.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/variables.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace vgpu::cudart {
namespace {

TEST(VariableBytes, TypesAndPlaces) {
  EXPECT_EQ(ptx_variable_bytes(".global .f16x2 x[8];"), 32U);
  EXPECT_EQ(ptx_variable_bytes(".global .bf16x2 x[8];"), 32U);
  EXPECT_EQ(ptx_variable_bytes(".global .bf16 x[8];"), 16U);
  EXPECT_EQ(ptx_variable_bytes(".global .u16x2 x[8];"), 32U);
  EXPECT_EQ(ptx_variable_bytes(".global .f32x2 x[8];"), 64U);
  EXPECT_EQ(ptx_variable_bytes(".global .b128 x[8];"), 128U);
  EXPECT_EQ(ptx_variable_bytes(".global .u32 x[0b100];"), 16U);
  EXPECT_EQ(ptx_variable_bytes(".global .u8 a;.global .align 4096 .u8 b;.global .u8 c;"), 4113U);
}

TEST(Variables, OfText) {
  EXPECT_EQ(ptx_variable_bytes(""), 0U);
  EXPECT_EQ(ptx_variable_bytes(".visible .global .align 4 .u32 x;"), 4U);
  EXPECT_EQ(ptx_variable_bytes(".visible .global .align 8 .b8 x[768];\n.const .f64 y;"), 776U);
  EXPECT_EQ(ptx_variable_bytes(".global .v4 .f32 m[4][0x10];"), 1024U);
  EXPECT_EQ(ptx_variable_bytes(".global.align 16.b8 x[1024U];"), 1024U);
  EXPECT_EQ(ptx_variable_bytes("/* .global .u64 a; */ .global/**/.u32// [7]\n x[2];"), 8U);
  EXPECT_EQ(ptx_variable_bytes(".global .u16 x[] = {1, 2, 3};"), 6U);
  EXPECT_EQ(ptx_variable_bytes(".global .u16 x[][2] = {{1, 2}, {3, 4}};.global .u8 z;"), 17U);
  EXPECT_EQ(ptx_variable_bytes(".global .u64 p[2] = {generic(x), mask(0xff) y};"), 16U);
  EXPECT_EQ(ptx_variable_bytes(".global .u32 a, b[3], c = 7;"), 36U) << "each at a multiple of 16";
  EXPECT_EQ(ptx_variable_bytes(".file 1 \"a.cu\"\n.global .u32 a;\n.loc 1 2 3\n.const .u32 b;"),
            20U);
}

TEST(Variables, WhatTakesNone) {
  EXPECT_EQ(ptx_variable_bytes(".extern .global .b8 x[4096];"), 0U);
  EXPECT_EQ(ptx_variable_bytes(".extern .func f;\n.global .u8 x;"), 1U);
  EXPECT_EQ(ptx_variable_bytes(".extern .visible .global .b8 x[4096];"), 4096U);
  EXPECT_EQ(ptx_variable_bytes(".visible .extern .global .b8 x[4096];"), 0U);
  EXPECT_EQ(ptx_variable_bytes(".global .attribute(.managed) .align 4 .b8 x[4096];"), 4096U);
  EXPECT_EQ(ptx_variable_bytes(".shared .b8 x[4096];"), 0U);
  EXPECT_EQ(ptx_variable_bytes(".visible .entry k(.param .u64 .ptr .global .align 4 p) {\n"
                               "ld.global.u32 %r1, [%rd1]; st.const.u8 [x], 1; }"),
            0U);
}

TEST(Variables, WhatIsNotUnderstoodIsTooMuch) {
  EXPECT_EQ(ptx_variable_bytes(".global .u8 x[1<<40];"), kUnknownBytes);
  EXPECT_EQ(ptx_variable_bytes(".global .u8 x[N];"), kUnknownBytes);
  EXPECT_EQ(ptx_variable_bytes(".global .u64 x[0xffffffffffffffff];"), kUnknownBytes);
  EXPECT_EQ(ptx_variable_bytes(".global .u64 x[4294967296][4294967296];"), kUnknownBytes);
  EXPECT_EQ(ptx_variable_bytes(".global .u8 a[0xfffffffffffffff0]; .global .u8 b[32];"),
            kUnknownBytes);
}

// Whatever a text ends in, reading it ends.
TEST(Variables, TextsThatStop) {
  const std::string whole =
      ".global .attribute(.managed) .align 4 .b8 x[2] = {1, \"a\", 2}; /* a */";
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    (void)ptx_variable_bytes(std::string_view(whole).substr(0, bytes));
}

std::string cubin(uint64_t global, uint64_t constant) {
  const std::string names("\0.nv.global\0.nv.constant3\0.text.k\0", 34);
  Elf64_Ehdr header = {};
  header.e_shoff = sizeof(header) + names.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 3;
  Elf64_Shdr sections[4] = {};
  const auto name = [&](int section, uint32_t at, uint64_t size) {
    sections[section].sh_name = at;
    sections[section].sh_size = size;
  };
  name(0, 1, global);
  name(1, 12, constant);
  name(2, 26, 1 << 20);
  name(3, 0, names.size());
  sections[3].sh_offset = sizeof(header);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += names;
  return bytes.append(reinterpret_cast<const char*>(sections), sizeof(sections));
}

TEST(Variables, OfCubin) {
  EXPECT_EQ(cubin_variable_bytes(cubin(4096, 16)), 4112U);
  EXPECT_EQ(cubin_variable_bytes(cubin(~uint64_t{0}, 16)), kUnknownBytes);
  const std::string whole = cubin(4096, 16);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_LE(cubin_variable_bytes(std::string_view(whole).substr(0, bytes)), 4112U);
}

Image text(uint32_t arch, const char* code) {
  Image image;
  image.kind = Image::Kind::kPtx;
  image.arch = arch;
  image.bytes = code;
  return image;
}

TEST(Variables, OfTheTextThatIsTaken) {
  const std::vector<Image> images = {text(75, ".global .u8 x[1];"), text(80, ".global .u8 x[2];"),
                                     text(80, ".global .u8 y[3];"), text(90, ".global .u8 x[4];")};
  EXPECT_EQ(variable_bytes(images, 75), 1U);
  EXPECT_EQ(variable_bytes(images, 86), 5U);  // two files of one program
  EXPECT_EQ(variable_bytes(images, 121), 4U);
  EXPECT_EQ(variable_bytes(images, 70), 0U);
}

}  // namespace
}  // namespace vgpu::cudart
