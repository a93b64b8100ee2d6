// mma with a sparse A and with scales, against sums over plain matrices. Where elements, metadata
// and scales are is written here for each lane, as PTX's manual gives it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "executor.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

enum class Kind { kFloat, kSigned, kUnsigned, kSingle };

struct Element {
  const char* name;
  unsigned bits;   // of its place
  unsigned shift;  // of its pattern in there
  Kind kind;
  Format format;
  unsigned width = 0;  // bits of its pattern; 0 = of its place

  double value(uint32_t place) const {
    const unsigned n = width != 0 ? width : bits;
    const uint32_t v = place >> shift & (n == 32 ? ~0u : (1u << n) - 1);
    if (kind == Kind::kUnsigned) return v;
    if (kind == Kind::kSigned) return static_cast<int32_t>(v << (32 - n)) >> (32 - n);
    if (kind == Kind::kFloat) return decode(v, format);
    float f;
    std::memcpy(&f, &v, 4);
    return f;
  }
  uint32_t random(std::mt19937& r) const {
    if (kind == Kind::kSigned || kind == Kind::kUnsigned) return r() & ((1u << bits) - 1);
    const double v = (static_cast<int>(r() % 17) - 8) / 4.0;  // few bits: sums are exact
    if (kind == Kind::kFloat) return encode(v, format, Round::n) << shift;
    const float f = static_cast<float>(v);
    uint32_t place;
    std::memcpy(&place, &f, 4);
    return place;
  }
};

const Element kF16{"f16", 16, 0, Kind::kFloat, kHalf}, kBf16{"bf16", 16, 0, Kind::kFloat, kBfloat},
    kTf32{"tf32", 32, 0, Kind::kSingle, {}}, kS8{"s8", 8, 0, Kind::kSigned, {}},
    kU8{"u8", 8, 0, Kind::kUnsigned, {}}, kS4{"s4", 4, 0, Kind::kSigned, {}},
    kU4{"u4", 4, 0, Kind::kUnsigned, {}}, kByteE4m3{"e4m3", 8, 0, Kind::kFloat, kE4m3},
    kByteE5m2{"e5m2", 8, 0, Kind::kFloat, kE5m2}, kByteE3m2{"e3m2", 8, 0, Kind::kFloat, kE3m2, 6},
    kByteE2m3{"e2m3", 8, 0, Kind::kFloat, kE2m3, 6},
    kByteE2m1{"e2m1", 8, 2, Kind::kFloat, kE2m1, 4}, kNibble{"e2m1", 4, 0, Kind::kFloat, kE2m1};

struct Case {
  std::string opcode;  // before the types
  Element a, b;
  unsigned k;
  bool sparse = false;
  unsigned selector = 0;
  unsigned scales = 0;  // of a row of A and a column of B
  bool scale_e4m3 = false;
  unsigned byte_a = 0, thread_a = 0, byte_b = 0, thread_b = 0;
};

// Registers of a warp: word r of lane l at [l * count + r].
struct Words {
  unsigned count;
  std::vector<uint32_t> at;
  explicit Words(unsigned n) : count(n), at(32 * n) {}
  void put(unsigned lane, unsigned bit, unsigned bits, uint32_t v) {
    at[lane * count + bit / 32] |= v << (bit % 32);
    (void)bits;
  }
};

bool is_integer(const Case& c) { return c.a.kind == Kind::kSigned || c.a.kind == Kind::kUnsigned; }

std::string list(const char* name, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i == 0 ? "%" : ", %") + std::string(name) + std::to_string(i);
  return "{" + text + "}";
}

std::string text_of(const Case& c, const std::vector<std::pair<std::string, unsigned>>& inputs) {
  std::string text =
      ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 pa, .param "
      ".u64 pb, .param .u64 pc, .param .u64 pe, .param .u64 pf, .param .u64 pg, .param .u64 pd)\n"
      "{\n  .reg .b32 %lane, %d<4>; .reg .b16 %id<4>; .reg .b64 %at, %by;\n  mov.u32 %lane, "
      "%laneid;\n";
  const auto address = [&](const std::string& name, unsigned count) {
    text += "  ld.param.u64 %at, [p" + name + "];\n  mul.wide.u32 %by, %lane, " +
            std::to_string(4 * count) + ";\n  add.s64 %at, %at, %by;\n";
  };
  for (const auto& [name, count] : inputs) {
    text += "  .reg .b32 %" + name + "<" + std::to_string(count) + ">;\n";
    address(name, count);
    for (unsigned i = 0; i < count; ++i)
      text += "  ld.global.b32 %" + name + std::to_string(i) + ", [%at+" + std::to_string(4 * i) +
              "];\n";
  }
  const std::string result = is_integer(c) ? "s32" : "f32";
  const unsigned ids[4] = {c.byte_a, c.thread_a, c.byte_b, c.thread_b};
  for (unsigned i = 0; i < 4; ++i)
    text += "  mov.u16 %id" + std::to_string(i) + ", " + std::to_string(ids[i]) + ";\n";
  text += "  " + c.opcode + "." + result + "." + c.a.name + "." + c.b.name + "." + result;
  if (c.scales != 0) text += c.scale_e4m3 ? ".ue4m3" : ".ue8m0";
  text += " " + list("d", 4) + ", " + list("a", inputs[0].second) + ", " +
          list("b", inputs[1].second) + ", " + list("c", 4);
  if (c.sparse) text += ", %e0, " + std::to_string(c.selector);
  if (c.scales != 0) text += ", %f0, {%id0, %id1}, %g0, {%id2, %id3}";
  text += ";\n";
  address("d", 4);
  for (unsigned i = 0; i < 4; ++i)
    text += "  st.global.b32 [%at+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  return text + "  ret;\n}\n";
}

// A row's chunk of a sparse matrix: which elements are there, and four bits of metadata.
struct Chunk {
  unsigned size, kept[4], bits;
};
Chunk random_chunk(unsigned element_bits, std::mt19937& r) {
  if (element_bits == 32) {
    const unsigned i = r() % 2;
    return {2, {i}, i == 0 ? 4u : 14u};
  }
  static const unsigned kPairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  const auto& p = kPairs[r() % 6];
  const unsigned bits = p[0] | p[1] << 2;
  if (element_bits == 4) return {8, {2 * p[0], 2 * p[0] + 1, 2 * p[1], 2 * p[1] + 1}, bits};
  return {4, {p[0], p[1]}, bits};
}

struct Inputs {
  std::vector<double> a, b, c;  // 16 x k, k x 8, 16 x 8
  Words words_a, words_b, words_c{4}, words_e{1}, words_f{1}, words_g{1};
};

void make_sparse(const Case& c, std::mt19937& r, Inputs* in) {
  const unsigned chunk = c.a.bits == 32 ? 2 : c.a.bits == 4 ? 8 : 4, half = chunk / 2;
  const unsigned each = 32 / c.a.bits, chunks = c.k / chunk, lanes = chunks / 4;
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned n = 0; n < chunks; ++n) {
      const Chunk kept = random_chunk(c.a.bits, r);
      for (unsigned i = 0; i < half; ++i) {
        const uint32_t v = c.a.random(r);
        in->a[row * c.k + n * chunk + kept.kept[i]] = c.a.value(v);
        // The kept elements of a row are four lanes' in turn: first registers 0 and 1, then 2
        // and 3.
        const unsigned place = n * half + i, reg = place / (4 * each) * 2 + row / 8;
        in->words_a.put(row % 8 * 4 + place / each % 4, reg * 32 + place % each * c.a.bits,
                        c.a.bits, v);
      }
      unsigned lane = row % 8 * 4 + c.selector * lanes, bit;
      if (c.a.bits >= 16) {
        lane += n / 4;
        bit = row / 8 * 16 + n % 4 * 4;
      } else {
        lane += n / 8 * 2 + row / 8;
        bit = n % 8 * 4;
      }
      in->words_e.put(lane, bit, 4, kept.bits);
    }
  }
}

void make_dense(const Case& c, std::mt19937& r, Inputs* in) {
  const unsigned each = 32 / c.a.bits;
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned x = 0; x < c.k; ++x) {
      const uint32_t v = c.a.random(r);
      in->a[row * c.k + x] = c.a.value(v);
      const unsigned reg = x / (4 * each) * 2 + row / 8;
      in->words_a.put(row % 8 * 4 + x / each % 4, reg * 32 + x % each * c.a.bits, c.a.bits, v);
    }
  }
}

void make_others(const Case& c, std::mt19937& r, Inputs* in) {
  const unsigned each = 32 / c.b.bits;
  for (unsigned x = 0; x < c.k; ++x) {
    for (unsigned column = 0; column < 8; ++column) {
      const uint32_t v = c.b.random(r);
      in->b[x * 8 + column] = c.b.value(v);
      in->words_b.put(column * 4 + x / each % 4, x / (4 * each) * 32 + x % each * c.b.bits,
                      c.b.bits, v);
    }
  }
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      const int v = static_cast<int>(r() % 100);
      in->c[row * 8 + column] = v;
      uint32_t bits = static_cast<uint32_t>(v);
      const float f = static_cast<float>(v);
      if (!is_integer(c)) std::memcpy(&bits, &f, 4);
      in->words_c.at[(row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2] = bits;
    }
  }
}

double scale_value(uint32_t bits, bool e4m3) {
  return e4m3 ? decode(bits, kE4m3) : std::ldexp(1, static_cast<int>(bits) - 127);
}

// Random scales in the bytes that count, and others elsewhere; multiplies the matrices by them.
void make_scales(const Case& c, std::mt19937& r, Inputs* in) {
  if (c.scales == 0) return;
  for (uint32_t& w : in->words_f.at) w = r();
  for (uint32_t& w : in->words_g.at) w = r();
  const unsigned part = c.k / c.scales;
  const auto put = [&](Words* words, unsigned lane, unsigned byte) {
    const uint32_t v = c.scale_e4m3 ? 0x30 + r() % 16 : 120 + r() % 14;
    words->at[lane] = (words->at[lane] & ~(255u << (byte * 8))) | v << (byte * 8);
    return scale_value(v, c.scale_e4m3);
  };
  for (unsigned s = 0; s < c.scales; ++s) {
    for (unsigned row = 0; row < 16; ++row) {
      const double f = put(&in->words_f, row % 8 * 4 + c.thread_a * 2 + row / 8, c.byte_a + s);
      for (unsigned x = 0; x < part; ++x) in->a[row * c.k + s * part + x] *= f;
    }
    for (unsigned column = 0; column < 8; ++column) {
      const double f = put(&in->words_g, column * 4 + c.thread_b, c.byte_b + s);
      for (unsigned x = 0; x < part; ++x) in->b[(s * part + x) * 8 + column] *= f;
    }
  }
}

void check(const Case& c) {
  SCOPED_TRACE(c.opcode + " " + c.a.name + " " + c.b.name);
  std::mt19937 random(c.k + c.selector);
  const unsigned stored = c.sparse ? c.k / 2 : c.k;
  Inputs in{std::vector<double>(16 * c.k), std::vector<double>(c.k * 8), std::vector<double>(128),
            Words(16 * stored * c.a.bits / 1024), Words(8 * c.k * c.b.bits / 1024)};
  c.sparse ? make_sparse(c, random, &in) : make_dense(c, random, &in);
  make_others(c, random, &in);
  make_scales(c, random, &in);
  std::string error;
  auto module = TestModule::load(text_of(c, {{"a", in.words_a.count},
                                             {"b", in.words_b.count},
                                             {"c", 4},
                                             {"e", 1},
                                             {"f", 1},
                                             {"g", 1}}),
                                 &error);
  ASSERT_NE(module, nullptr) << error;
  std::vector<uint32_t> got(128);
  const uint64_t params[7] = {reinterpret_cast<uint64_t>(in.words_a.at.data()),
                              reinterpret_cast<uint64_t>(in.words_b.at.data()),
                              reinterpret_cast<uint64_t>(in.words_c.at.data()),
                              reinterpret_cast<uint64_t>(in.words_e.at.data()),
                              reinterpret_cast<uint64_t>(in.words_f.at.data()),
                              reinterpret_cast<uint64_t>(in.words_g.at.data()),
                              reinterpret_cast<uint64_t>(got.data())};
  Launch launch;
  launch.block.x = 32;
  launch.params = params;
  ASSERT_TRUE(module->run(0, Lanes::kWarp, launch, &error)) << error;
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      double want = in.c[row * 8 + column];
      for (unsigned x = 0; x < c.k; ++x) want += in.a[row * c.k + x] * in.b[x * 8 + column];
      const uint32_t bits = got[(row % 8 * 4 + column / 2) * 4 + row / 8 * 2 + column % 2];
      float f;
      std::memcpy(&f, &bits, 4);
      const double have = is_integer(c) ? static_cast<int32_t>(bits) : double{f};
      ASSERT_NEAR(have, want, is_integer(c) ? 0 : 1e-6 * std::max(1.0, std::abs(want)))
          << "row " << row << " column " << column;
    }
  }
}

TEST(MatrixExtra, SparseHalvesAndSingles) {
  const std::string k8 = "mma.sp.sync.aligned.m16n8k8.row.col",
                    k16 = "mma.sp.sync.aligned.m16n8k16.row.col",
                    k32 = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col";
  for (unsigned selector = 0; selector < 4; ++selector) {
    check({k16, kF16, kF16, 16, true, selector});
    check({k8, kTf32, kTf32, 8, true, selector});
  }
  for (unsigned selector = 0; selector < 2; ++selector) {
    check({k32, kF16, kF16, 32, true, selector});
    check({k32, kBf16, kBf16, 32, true, selector});
    check({k16, kTf32, kTf32, 16, true, selector});
  }
}

TEST(MatrixExtra, SparseBytesAndNibbles) {
  const std::string begin = "mma.sp.sync.aligned.m16n8k", end = ".row.col";
  for (unsigned selector = 0; selector < 2; ++selector) {
    check({begin + "32" + end, kS8, kU8, 32, true, selector});
    check({begin + "64" + end, kU4, kS4, 64, true, selector});
  }
  check({begin + "64" + end, kU8, kU8, 64, true});
  check({begin + "128" + end, kS4, kS4, 128, true});
  check({begin + "64" + end, kByteE4m3, kByteE5m2, 64, true});
  check({"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4", kByteE2m1,
         kByteE3m2, 64, true});
}

TEST(MatrixExtra, FloatsOfSixAndFourBits) {
  const std::string opcode = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4";
  const Element all[] = {kByteE4m3, kByteE5m2, kByteE3m2, kByteE2m3, kByteE2m1};
  for (const Element& a : all) {
    for (const Element& b : all) check({opcode, a, b, 32});
  }
}

TEST(MatrixExtra, Scales) {
  const std::string f8 =
      "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col";
  for (unsigned byte = 0; byte < 4; ++byte)
    check({f8, kByteE4m3, kByteE2m1, 32, false, 0, 1, false, byte, byte % 2, 3 - byte, byte});
  const std::string k64 = "mma.sync.aligned.m16n8k64.row.col.kind::";
  for (unsigned byte = 0; byte < 4; byte += 2) {
    check(
        {k64 + "mxf4.block_scale", kNibble, kNibble, 64, false, 0, 2, false, byte, 1, 2 - byte, 3});
    check({k64 + "mxf4nvf4.block_scale.scale_vec::2X", kNibble, kNibble, 64, false, 0, 2, false,
           byte, 0, byte, 2});
  }
  check({k64 + "mxf4nvf4.block_scale.scale_vec::4X", kNibble, kNibble, 64, false, 0, 4, true, 0, 1,
         0, 1});
  check({k64 + "mxf4nvf4.block_scale.scale_vec::4X", kNibble, kNibble, 64, false, 0, 4, false, 0, 0,
         0, 0});
}

TEST(MatrixExtra, SparseWithScales) {
  const std::string begin = "mma.sp::ordered_metadata.sync.aligned.m16n8k";
  check({begin + "64.row.col.kind::mxf8f6f4.block_scale", kByteE3m2, kByteE5m2, 64, true, 0, 1,
         false, 1, 0, 2, 1});
  check({begin + "128.row.col.kind::mxf4.block_scale.scale_vec::2X", kNibble, kNibble, 128, true, 0,
         2, false, 2, 1, 0, 3});
  check({begin + "128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X", kNibble, kNibble, 128,
         true, 0, 4, true});
}

TEST(MatrixExtra, WhatIsNoSuchProductIsRefused) {
  const Case cases[] = {{"mma.sp.sync.aligned.m16n8k16.row.col", kF16, kF16, 16, true, 4},
                        {"mma.sp.sync.aligned.m16n8k64.row.col", kS8, kS8, 64, true, 1},
                        {"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale", kNibble,
                         kNibble, 64, false, 0, 2}};
  for (const Case& c : cases) {
    const unsigned a = 16 * (c.sparse ? c.k / 2 : c.k) * c.a.bits / 1024, b = c.k * c.b.bits / 128;
    std::string error;
    auto module = TestModule::load(
        text_of(c, {{"a", a}, {"b", b}, {"c", 4}, {"e", 1}, {"f", 1}, {"g", 1}}), &error);
    Launch launch;
    launch.block.x = 32;
    EXPECT_TRUE(module == nullptr || !module->run(0, Lanes::kWarp, launch, &error)) << c.opcode;
    EXPECT_NE(error.find("not supported"), std::string::npos) << c.opcode << ": " << error;
  }
}

}  // namespace
}  // namespace vgpu::softgpu
