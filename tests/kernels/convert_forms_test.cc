// cvt between all types, under all roundings.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "instruction.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

template <typename T>
const char* name() {
  if (std::is_same_v<T, float>) return "f32";
  if (std::is_same_v<T, double>) return "f64";
  if (std::is_same_v<T, int8_t>) return "s8";
  if (std::is_same_v<T, uint8_t>) return "u8";
  if (std::is_same_v<T, int16_t>) return "s16";
  if (std::is_same_v<T, uint16_t>) return "u16";
  if (std::is_same_v<T, int32_t>) return "s32";
  if (std::is_same_v<T, uint32_t>) return "u32";
  return std::is_same_v<T, int64_t> ? "s64" : "u64";
}

template <typename D, typename A>
std::string spelled(const std::string& modifiers) {
  return "cvt" + modifiers + "." + name<D>() + "." + name<A>();
}

// NaN: zero, or the highest bit where source or result have 64 bits.
template <typename D>
D clamp_real(double v, bool wide_source = false) {
  using L = std::numeric_limits<D>;
  if (v != v && !wide_source && sizeof(D) < 8) return 0;
  if (v != v) return static_cast<D>(uint64_t{1} << (sizeof(D) * 8 - 1));
  if (v <= static_cast<double>(L::min())) return L::min();
  if (v >= std::ldexp(1.0, L::digits)) return L::max();
  return static_cast<D>(v);
}
template <typename D, typename A>
D clamp_integer(A v) {
  using L = std::numeric_limits<D>;
  const __int128 x = v;
  return x < L::min() ? L::min() : x > L::max() ? L::max() : static_cast<D>(v);
}

template <typename A>
double rounded_integral(const std::string& mode, A v) {
  const double x = v;
  if (mode == ".rni") return std::nearbyint(x);
  return mode == ".rzi" ? std::trunc(x) : mode == ".rmi" ? std::floor(x) : std::ceil(x);
}

template <typename D, typename A>
void check_to_integer() {
  for (const std::string mode : {".rni", ".rzi", ".rmi", ".rpi"}) {
    check({unary<D, A>(spelled<D, A>(mode), [mode](A a) {
      return clamp_real<D>(rounded_integral(mode, a), sizeof(A) == 8);
    })});
  }
}

TEST(ConvertForms, FloatsToIntegersSaturate) {
  check_to_integer<int32_t, float>();
  check_to_integer<uint32_t, float>();
  check_to_integer<int64_t, float>();
  check_to_integer<uint64_t, double>();
  check_to_integer<int64_t, double>();
  check_to_integer<int32_t, double>();
  check_to_integer<uint16_t, float>();
  check_to_integer<int16_t, double>();
  check_to_integer<int8_t, float>();
  check_to_integer<uint8_t, float>();
}

TEST(ConvertForms, FloatsToWholeFloats) {
  for (const std::string mode : {".rni", ".rzi", ".rmi", ".rpi"}) {
    check({unary<float, float>("cvt" + mode + ".f32.f32",
                               [mode](float a) { return float(rounded_integral(mode, a)); }),
           unary<double, double>("cvt" + mode + ".f64.f64",
                                 [mode](double a) { return rounded_integral(mode, a); })});
  }
}

template <typename D, typename A>
Form integer_form(const std::string& modifiers) {
  const bool sat = modifiers == ".sat";
  return unary<D, A>(spelled<D, A>(modifiers),
                     [sat](A a) { return sat ? clamp_integer<D>(a) : static_cast<D>(a); });
}

TEST(ConvertForms, IntegersAreCutOrClamped) {
  for (const std::string m : {"", ".sat"}) {
    check({integer_form<uint8_t, int32_t>(m), integer_form<int8_t, int32_t>(m),
           integer_form<uint16_t, int64_t>(m), integer_form<int16_t, uint32_t>(m),
           integer_form<int32_t, int64_t>(m), integer_form<uint32_t, int64_t>(m),
           integer_form<uint32_t, int32_t>(m), integer_form<int32_t, uint32_t>(m),
           integer_form<int64_t, int32_t>(m), integer_form<uint64_t, uint32_t>(m),
           integer_form<uint64_t, int16_t>(m), integer_form<int32_t, int8_t>(m)});
  }
}

// Correct rounding of an integer to f32 or f64, by comparing neighbours exactly.
template <typename D, typename A>
D round_integer(A a, Round mode) {
  const __int128 v = a;
  D near = static_cast<D>(a);
  auto exact = [](D d) { return static_cast<__int128>(d); };
  auto below = exact(near) <= v ? near : std::nextafter(near, -std::numeric_limits<D>::infinity());
  auto above = exact(near) >= v ? near : std::nextafter(near, std::numeric_limits<D>::infinity());
  if (mode == Round::n) return near;
  if (mode == Round::z) return v < 0 ? above : below;
  return mode == Round::m ? below : above;
}

template <typename D, typename A>
void check_from_integer() {
  for (const Round mode : {Round::n, Round::z, Round::m, Round::p}) {
    check({unary<D, A>(spelled<D, A>(std::string(".r") + static_cast<char>(mode)),
                       [mode](A a) { return round_integer<D>(a, mode); })});
  }
}

TEST(ConvertForms, IntegersToFloatsRound) {
  check_from_integer<float, int32_t>();
  check_from_integer<float, uint32_t>();
  check_from_integer<float, int64_t>();
  check_from_integer<float, uint64_t>();
  check_from_integer<double, int64_t>();
  check_from_integer<double, uint64_t>();
  check({unary<double, int32_t>("cvt.rn.f64.s32", [](int32_t a) { return double(a); }),
         unary<float, uint8_t>("cvt.rn.f32.u8", [](uint8_t a) { return float(a); })});
}

TEST(ConvertForms, DoublesToFloatsRound) {
  for (const Round mode : {Round::n, Round::z, Round::m, Round::p}) {
    check({unary<float, double>(std::string("cvt.r") + static_cast<char>(mode) + ".f32.f64",
                                [mode](double a) {
                                  const uint32_t bits = encode(a, kSingle, mode);
                                  float f;
                                  std::memcpy(&f, &bits, 4);
                                  return f;
                                })});
  }
  check({unary<double, float>("cvt.f64.f32", [](float a) { return double(a); })});
}

template <typename T>
void check_small(const std::string& type, const Format& f) {
  for (const Round mode : {Round::n, Round::z, Round::m, Round::p}) {
    if (f.mantissa == 7 && mode != Round::n && mode != Round::z) continue;
    const std::string m = std::string("cvt.r") + static_cast<char>(mode) + "." + type;
    check({unary<T, float>(m + ".f32",
                           [&](float a) { return T{static_cast<uint16_t>(encode(a, f, mode))}; })});
  }
  check(
      {unary<T, double>("cvt.rn." + type + ".f64",
                        [&](double a) { return T{static_cast<uint16_t>(encode(a, f, Round::n))}; }),
       unary<float, T>("cvt.f32." + type, [&](T a) { return float(decode(a.bits, f)); }),
       unary<T, int32_t>(
           "cvt.rn." + type + ".s32",
           [&](int32_t a) { return T{static_cast<uint16_t>(encode(a, f, Round::n))}; }),
       unary<T, T>("cvt.rni." + type + "." + type,
                   [&](T a) {
                     return T{static_cast<uint16_t>(
                         encode(std::nearbyint(decode(a.bits, f)), f, Round::n))};
                   }),
       unary<int32_t, T>("cvt.rzi.s32." + type,
                         [&](T a) { return clamp_real<int32_t>(std::trunc(decode(a.bits, f))); }),
       unary<uint64_t, T>("cvt.rpi.u64." + type, [&](T a) {
         return clamp_real<uint64_t>(std::ceil(decode(a.bits, f)));
       })});
}

TEST(ConvertForms, Halves) { check_small<Half>("f16", kHalf); }
TEST(ConvertForms, Bfloats) { check_small<Bfloat>("bf16", kBfloat); }

TEST(ConvertForms, LongIntegersToBfloatsRoundOnce) {
  auto exact = [](uint64_t a) {  // what double cannot hold goes into its last bit
    double d = static_cast<double>(a);
    if (static_cast<unsigned __int128>(d) > a) d = std::nextafter(d, 0.0);
    uint64_t bits;
    std::memcpy(&bits, &d, 8);
    if (static_cast<unsigned __int128>(d) != a) bits |= 1;
    std::memcpy(&d, &bits, 8);
    return Bfloat{static_cast<uint16_t>(encode(d, kBfloat, Round::n))};
  };
  check({unary<Bfloat, uint64_t>("cvt.rn.bf16.u64", exact)});
}

TEST(ConvertForms, Tf32) {
  const Format tf32{8, 10};
  for (const std::string m : {"rna", "rn", "rz"}) {
    const Round mode = m == "rna" ? Round::a : m == "rn" ? Round::n : Round::z;
    check({unary<float, float>("{ .reg .b32 x; cvt." + m + ".tf32.f32 x, $a; mov.b32 $d, x; }",
                               [=](float a) {
                                 const uint32_t bits = encode(a, tf32, mode) << 13;
                                 float f;
                                 std::memcpy(&f, &bits, 4);
                                 return f;
                               })});
  }
}

// Pairs of 8 bits and less: the first operand is the upper one.
void check_pair(const std::string& type, const Format& f, unsigned bits) {
  const std::string reg = bits == 4 ? "b8" : "b16";
  const std::string widen = bits == 4 ? "mov.b16 $d, {x, 0};" : "mov.b16 $d, x;";
  auto pair = [=](double a, double b) {
    return static_cast<uint16_t>(encode(a, f, Round::n, true) << bits |
                                 encode(b, f, Round::n, true));
  };
  check({binary<uint16_t, float, float>(
             "{ .reg ." + reg + " x; cvt.rn.satfinite." + type + ".f32 x, $a, $b; " + widen + " }",
             pair),
         unary<uint16_t, Half2>(
             "{ .reg ." + reg + " x; cvt.rn.satfinite." + type + ".f16x2 x, $a; " + widen + " }",
             [=](Half2 a) {
               return pair(decode(a.bits >> 16, kHalf), decode(a.bits & 0xffff, kHalf));
             })});
  const uint32_t mask = (1u << bits) - 1;
  check({unary<Half2, uint16_t>(
      "{ .reg ." + reg + " x, y; " +
          (bits == 4 ? std::string("mov.b16 {x, y}, $a; ") : std::string("mov.b16 x, $a; ")) +
          "cvt.rn.f16x2." + type + " $d, x; }",
      [=](uint16_t a) {
        const uint32_t low = encode(decode(a & mask, f), kHalf, Round::n);
        return Half2{low | encode(decode(a >> bits & mask, f), kHalf, Round::n) << 16};
      })});
}

TEST(ConvertForms, EightBitFloats) {
  check_pair("e4m3x2", kE4m3, 8);
  check_pair("e5m2x2", kE5m2, 8);
}
TEST(ConvertForms, FourBitFloats) { check_pair("e2m1x2", kE2m1, 4); }

TEST(ConvertForms, PairsOfHalves) {
  check(
      {binary<Half2, float, float>("cvt.rn.f16x2.f32",
                                   [](float a, float b) {
                                     return Half2{encode(a, kHalf, Round::n) << 16 |
                                                  encode(b, kHalf, Round::n)};
                                   }),
       binary<Bfloat2, float, float>("cvt.rz.bf16x2.f32",
                                     [](float a, float b) {
                                       return Bfloat2{encode(a, kBfloat, Round::z) << 16 |
                                                      encode(b, kBfloat, Round::z)};
                                     }),
       unary<float, float>("cvt.sat.f32.f32", [](float a) { return a > 0 ? (a < 1 ? a : 1) : 0; }),
       binary<uint32_t, int32_t, int32_t>(
           "{ .reg .b32 z; mov.b32 z, 0x1234; cvt.pack.sat.u8.s32.b32 $d, $a, $b, z; }",
           [](int32_t a, int32_t b) {
             return 0x12340000u | uint32_t{clamp_integer<uint8_t>(a)} << 8 |
                    clamp_integer<uint8_t>(b);
           }),
       binary<uint32_t, int32_t, int32_t>("cvt.pack.sat.s16.s32", [](int32_t a, int32_t b) {
         return static_cast<uint32_t>(clamp_integer<int16_t>(a)) << 16 |
                static_cast<uint16_t>(clamp_integer<int16_t>(b));
       })});
}

}  // namespace
}  // namespace vgpu::softgpu
