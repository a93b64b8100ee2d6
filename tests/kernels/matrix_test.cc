// mma, wmma and the moves of tiles against products of plain matrices. The places of elements are
// written here as PTX's manual gives them, one formula for each type.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "executor.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

struct At {
  unsigned row, column;
};
using PlaceOf = std::function<At(unsigned lane, unsigned i)>;

struct Operand {
  unsigned bits, registers;
  PlaceOf place;  // of element i of a lane; for B row = k, column = n
  std::function<double(uint64_t)> value;
  std::function<uint64_t(std::mt19937&)> random;  // bits of a small number
  unsigned word() const { return bits == 64 ? 64 : 32; }
  unsigned per_register() const { return word() / bits; }
  unsigned elements() const { return registers * per_register(); }
};

struct Case {
  std::string opcode;
  unsigned m, n, k;
  Operand a, b, c;         // d is like c
  bool exclusive = false;  // xor instead of multiplication
  double near = 0;
};

// A fragment's registers of 32 lanes in memory: lane after lane.
std::vector<uint8_t> fragment_bytes(const Operand& o, const std::vector<uint64_t>& matrix,
                                    unsigned columns) {
  std::vector<uint8_t> bytes(32 * o.registers * o.word() / 8 + 8);
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < o.elements(); ++i) {
      const At p = o.place(lane, i);
      const uint64_t v = matrix[p.row * columns + p.column];
      const size_t bit = (size_t{lane} * o.registers * o.word()) + i * o.bits;
      if (o.bits >= 8)
        std::memcpy(&bytes[bit / 8], &v, o.bits / 8);
      else
        bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | v << (bit % 8));
    }
  }
  return bytes;
}

std::string names(const char* prefix, unsigned count) {
  std::string list;
  for (unsigned i = 0; i < count; ++i)
    list += (i == 0 ? "" : ", ") + std::string("%") + prefix + std::to_string(i);
  return "{" + list + "}";
}

std::string kernel_text(const Case& c) {
  std::string text =
      ".version 9.0\n.target sm_120\n.address_size 64\n.visible .entry k(.param .u64 pa, .param "
      ".u64 "
      "pb, .param .u64 pc, .param .u64 pd)\n{\n  .reg .b32 %lane;\n  .reg .b64 %at, %by;\n"
      "  mov.u32 %lane, %laneid;\n";
  auto move = [&](const char* name, const Operand& o, const char* from, bool stores) {
    const std::string type = o.word() == 64 ? "b64" : "b32";
    if (name[0] != 'd' || stores == false)
      text += "  .reg ." + type + " %" + name + "<" + std::to_string(o.registers) + ">;\n";
    if (from == nullptr) return;
    text += std::string("  ld.param.u64 %at, [") + from + "];\n  mul.wide.u32 %by, %lane, " +
            std::to_string(o.registers * o.word() / 8) + ";\n  add.s64 %at, %at, %by;\n";
    for (unsigned i = 0; i < o.registers; ++i) {
      const std::string reg = std::string("%") + name + std::to_string(i);
      const std::string at = "[%at+" + std::to_string(i * o.word() / 8) + "]";
      text += stores ? "  st.global." + type + " " + at + ", " + reg + ";\n"
                     : "  ld.global." + type + " " + reg + ", " + at + ";\n";
    }
  };
  move("a", c.a, "pa", false);
  move("b", c.b, "pb", false);
  move("c", c.c, "pc", false);
  move("d", c.c, nullptr, false);
  text += "  " + c.opcode + " " + names("d", c.c.registers) + ", " + names("a", c.a.registers) +
          ", " + names("b", c.b.registers) + ", " + names("c", c.c.registers) + ";\n";
  move("d", c.c, "pd", true);
  return text + "  ret;\n}\n";
}

void run_mma(const Case& c) {
  SCOPED_TRACE(c.opcode);
  std::mt19937 random(c.k);
  std::vector<uint64_t> a(c.m * c.k), b(c.k * c.n), sums(c.m * c.n);
  for (auto& v : a) v = c.a.random(random);
  for (auto& v : b) v = c.b.random(random);
  for (auto& v : sums) v = c.c.random(random);
  auto bytes_a = fragment_bytes(c.a, a, c.k), bytes_b = fragment_bytes(c.b, b, c.n);
  auto bytes_c = fragment_bytes(c.c, sums, c.n);
  std::vector<uint8_t> got(bytes_c.size());
  const uint64_t params[4] = {
      reinterpret_cast<uint64_t>(bytes_a.data()), reinterpret_cast<uint64_t>(bytes_b.data()),
      reinterpret_cast<uint64_t>(bytes_c.data()), reinterpret_cast<uint64_t>(got.data())};
  std::string error;
  auto module = TestModule::load(kernel_text(c), &error);
  ASSERT_NE(module, nullptr) << error;
  Launch launch;
  launch.block.x = 32;
  launch.params = params;
  ASSERT_TRUE(module->run(0, Lanes::kWarp, launch, &error)) << error;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < c.c.elements(); ++i) {
      const At p = c.c.place(lane, i);
      double want = c.c.value(sums[p.row * c.n + p.column]);
      for (unsigned x = 0; x < c.k; ++x) {
        const double u = c.a.value(a[p.row * c.k + x]), v = c.b.value(b[x * c.n + p.column]);
        want += c.exclusive ? (u != v ? 1 : 0) : u * v;
      }
      uint64_t bits = 0;
      std::memcpy(&bits, &got[(lane * c.c.elements() + i) * c.c.bits / 8], c.c.bits / 8);
      ASSERT_NEAR(c.c.value(bits), want, c.near * std::max(1.0, std::abs(want)))
          << "lane " << lane << " element " << i;
    }
  }
}

unsigned group(unsigned lane) { return lane >> 2; }
unsigned in_group(unsigned lane) { return lane & 3; }

At result_16x8(unsigned lane, unsigned i) {
  return {group(lane) + (i >= 2 ? 8 : 0), in_group(lane) * 2 + (i & 1)};
}

Operand half_operand(unsigned registers, PlaceOf place, const Format& f) {
  return {16, registers, place, [f](uint64_t v) { return decode(static_cast<uint32_t>(v), f); },
          [f](std::mt19937& r) {
            return encode((static_cast<int>(r() % 65) - 32) / 16.0, f, Round::n);
          }};
}
Operand byte_operand(unsigned registers, PlaceOf place, bool is_signed) {
  return {8, registers, place,
          [=](uint64_t v) { return is_signed ? double(int8_t(v)) : double(uint8_t(v)); },
          [](std::mt19937& r) { return uint64_t{r() & 255}; }};
}
Operand byte_float(unsigned registers, PlaceOf place, const Format& f) {
  Operand o = half_operand(registers, place, f);
  o.bits = 8;
  return o;
}
Operand single_operand(unsigned registers, PlaceOf place) {
  auto value = [](uint64_t v) {
    float f;
    std::memcpy(&f, &v, 4);
    return double(f);
  };
  auto random = [](std::mt19937& r) {
    const float f = static_cast<float>(static_cast<int>(r() % 65) - 32) / 16;
    uint64_t v = 0;
    std::memcpy(&v, &f, 4);
    return v;
  };
  return {32, registers, place, value, random};
}
Operand int_operand(unsigned registers, PlaceOf place) {
  return {32, registers, place, [](uint64_t v) { return double(int32_t(v)); },
          [](std::mt19937& r) { return uint64_t{r() & 0xffff}; }};
}

TEST(Matrix, HalvesAndBfloats) {
  const PlaceOf a16 = [](unsigned lane, unsigned i) {
    return At{group(lane) + (i % 4 < 2 ? 0 : 8), in_group(lane) * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
  };
  const PlaceOf b16 = [](unsigned lane, unsigned i) {
    return At{in_group(lane) * 2 + (i & 1) + (i >= 2 ? 8 : 0), group(lane)};
  };
  const PlaceOf a8 = [](unsigned lane, unsigned i) {
    return At{group(lane) + (i < 2 ? 0 : 8), in_group(lane) * 2 + (i & 1)};
  };
  const PlaceOf b8 = [](unsigned lane, unsigned i) {
    return At{in_group(lane) * 2 + (i & 1), group(lane)};
  };
  const Operand single = single_operand(4, result_16x8);
  run_mma({"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16,
           half_operand(4, a16, kHalf), half_operand(2, b16, kHalf), single});
  run_mma({"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, half_operand(2, a8, kHalf),
           half_operand(1, b8, kHalf), single});
  run_mma({"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16,
           half_operand(4, a16, kBfloat), half_operand(2, b16, kBfloat), single});
  run_mma({"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16,
           half_operand(4, a16, kHalf), half_operand(2, b16, kHalf),
           half_operand(2, result_16x8, kHalf), false, 0x1p-10});
}

TEST(Matrix, BytesAndNibbles) {
  const PlaceOf a32 = [](unsigned lane, unsigned i) {
    return At{group(lane) + (i % 8 < 4 ? 0 : 8), in_group(lane) * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  };
  const PlaceOf b32 = [](unsigned lane, unsigned i) {
    return At{in_group(lane) * 4 + (i & 3) + (i >= 4 ? 16 : 0), group(lane)};
  };
  run_mma({"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", 16, 8, 32, byte_operand(4, a32, true),
           byte_operand(2, b32, false), int_operand(4, result_16x8)});
  run_mma({"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 8, 32,
           byte_float(4, a32, kE4m3), byte_float(2, b32, kE5m2), single_operand(4, result_16x8)});
  Operand a = byte_operand(
      4,
      [](unsigned lane, unsigned i) {
        return At{group(lane) + (i % 16 < 8 ? 0 : 8),
                  in_group(lane) * 8 + (i & 7) + (i >= 16 ? 32 : 0)};
      },
      true);
  Operand b = byte_operand(
      2,
      [](unsigned lane, unsigned i) {
        return At{in_group(lane) * 8 + (i & 7) + (i >= 8 ? 32 : 0), group(lane)};
      },
      true);
  a.bits = b.bits = 4;
  a.random = b.random = [](std::mt19937& r) { return uint64_t{r() & 15}; };
  a.value = b.value = [](uint64_t v) { return double(int8_t(v << 4) >> 4); };
  run_mma({"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32", 16, 8, 64, a, b,
           int_operand(4, result_16x8)});
}

TEST(Matrix, SinglesAndDoubles) {
  const PlaceOf a8 = [](unsigned lane, unsigned i) {
    return At{group(lane) + (i % 2 == 0 ? 0 : 8), in_group(lane) + (i >= 2 ? 4 : 0)};
  };
  const PlaceOf b8 = [](unsigned lane, unsigned i) {
    return At{in_group(lane) + (i == 0 ? 0 : 4), group(lane)};
  };
  run_mma({"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, single_operand(4, a8),
           single_operand(2, b8), single_operand(4, result_16x8)});
  auto real = [](unsigned registers, PlaceOf place) {
    auto value = [](uint64_t v) {
      double d;
      std::memcpy(&d, &v, 8);
      return d;
    };
    auto random = [](std::mt19937& r) {
      const double d = static_cast<double>(r()) / 1e9;
      uint64_t v;
      std::memcpy(&v, &d, 8);
      return v;
    };
    return Operand{64, registers, place, value, random};
  };
  run_mma({"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4,
           real(1,
                [](unsigned lane, unsigned) {
                  return At{lane >> 2, lane & 3};
                }),
           real(1,
                [](unsigned lane, unsigned) {
                  return At{lane & 3, lane >> 2};
                }),
           real(2,
                [](unsigned lane, unsigned i) {
                  return At{lane >> 2, (lane & 3) * 2 + i};
                }),
           false, 1e-14});
}

TEST(Matrix, SingleBits) {
  auto bit = [](unsigned registers, PlaceOf place) {
    return Operand{1, registers, place, [](uint64_t v) { return double(v); },
                   [](std::mt19937& r) { return uint64_t{r() & 1}; }};
  };
  const Operand a = bit(4, [](unsigned lane, unsigned i) {
    return At{group(lane) + (i % 64 < 32 ? 0 : 8),
              in_group(lane) * 32 + (i & 31) + (i >= 64 ? 128 : 0)};
  });
  const Operand b = bit(2, [](unsigned lane, unsigned i) {
    return At{in_group(lane) * 32 + (i & 31) + (i >= 32 ? 128 : 0), group(lane)};
  });
  run_mma({"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", 16, 8, 256, a, b,
           int_operand(4, result_16x8)});
  run_mma({"mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", 16, 8, 256, a, b,
           int_operand(4, result_16x8), true});
}

}  // namespace
}  // namespace vgpu::softgpu
