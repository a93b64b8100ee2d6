// Arithmetic and comparisons on halves, bfloats and pairs of them.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "instruction.h"
#include "small_float.h"

namespace vgpu::softgpu {
namespace {

template <typename T>
struct Traits;
template <>
struct Traits<Half> {
  static constexpr Format kFormat = kHalf;
  static constexpr const char* kName = "f16";
  using Pair = Half2;
};
template <>
struct Traits<Bfloat> {
  static constexpr Format kFormat = kBfloat;
  static constexpr const char* kName = "bf16";
  using Pair = Bfloat2;
};

template <typename T>
long double value(T v) {
  return decode(v.bits, Traits<T>::kFormat);
}
// From long double: sums of exact products fit 64 bits for all but extreme exponents; there the
// cut-off part is folded into the last bit.
template <typename T>
T encoded(long double v) {
  const double d = static_cast<double>(v);
  double odd = d;
  if (static_cast<long double>(d) != v && !std::isinf(d)) {
    uint64_t bits;
    std::memcpy(&bits, &d, 8);
    if ((bits & 1) == 0) odd = std::nextafter(d, static_cast<long double>(d) < v ? 1e308 : -1e308);
  }
  return {static_cast<uint16_t>(encode(odd, Traits<T>::kFormat, Round::n))};
}
// a * b + c with the lost part of the sum kept, as above, on long doubles.
long double odd_fma(long double a, long double b, long double c) {
  const long double p = a * b, s = p + c;
  if (s != s || std::isinf(s)) return s;
  const long double t = s - p, lost = (p - (s - t)) + (c - t);
  if (lost == 0) return s;
  // Anything strictly between s and its neighbour rounds alike.
  return lost > 0 ? std::nextafter(s, 1e4000L) : std::nextafter(s, -1e4000L);
}
long double clamp01(long double v) { return v > 0 ? (v < 1 ? v : 1) : 0; }
long double relu(long double v) { return v != v ? v : v > 0 ? v : 0; }

template <typename T>
T least(T a, T b, bool most) {
  const long double x = value(a), y = value(b);
  if (x != x) return b;
  if (y != y) return a;
  if (x == y) return {static_cast<uint16_t>(most ? a.bits & b.bits : a.bits | b.bits)};
  return (x < y) != most ? a : b;
}
template <typename T>
T least_nan(T a, T b, bool most) {
  const bool nan = value(a) != value(a) || value(b) != value(b);
  return nan ? T{0x7fff} : least(a, b, most);
}

// f on each half of pairs
template <typename T, typename F>
auto on_pairs(F f) {
  using P = typename Traits<T>::Pair;
  return [f](auto... pairs) {
    const uint32_t low = f(T{static_cast<uint16_t>(pairs.bits)}...).bits;
    const uint32_t high = f(T{static_cast<uint16_t>(pairs.bits >> 16)}...).bits;
    return P{low | high << 16};
  };
}

template <typename T>
void check_arithmetic() {
  using P = typename Traits<T>::Pair;
  const std::string one = std::string(".") + Traits<T>::kName, two = one + "x2";
  auto add = [](T a, T b) { return encoded<T>(value(a) + value(b)); };
  auto sub = [](T a, T b) { return encoded<T>(value(a) - value(b)); };
  auto mul = [](T a, T b) { return encoded<T>(value(a) * value(b)); };
  auto sat = [](T a, T b) { return encoded<T>(clamp01(value(a) + value(b))); };
  auto fma = [](T a, T b, T c) { return encoded<T>(odd_fma(value(a), value(b), value(c))); };
  auto fma_relu = [](T a, T b, T c) {
    return encoded<T>(relu(odd_fma(value(a), value(b), value(c))));
  };
  auto min = [](T a, T b) { return least(a, b, false); };
  auto max = [](T a, T b) { return least(a, b, true); };
  auto max_nan = [](T a, T b) { return least_nan(a, b, true); };
  auto neg = [](T a) { return T{static_cast<uint16_t>(a.bits ^ 0x8000)}; };
  auto abs = [](T a) { return T{static_cast<uint16_t>(a.bits & 0x7fff)}; };
  auto xorsign = [](T a, T b) {
    const uint16_t sign = (a.bits ^ b.bits) & 0x8000;
    const T r = least(T{static_cast<uint16_t>(a.bits & 0x7fff)},
                      T{static_cast<uint16_t>(b.bits & 0x7fff)}, true);
    return T{static_cast<uint16_t>(sign | (r.bits & 0x7fff))};
  };
  check({binary<T, T, T>("add" + one, add), binary<T, T, T>("sub.rn" + one, sub),
         binary<T, T, T>("mul" + one, mul), ternary<T, T, T, T>("fma.rn" + one, fma),
         ternary<T, T, T, T>("fma.rn.relu" + one, fma_relu), binary<T, T, T>("min" + one, min),
         binary<T, T, T>("max" + one, max), binary<T, T, T>("max.NaN" + one, max_nan),
         binary<T, T, T>("max.xorsign.abs" + one, xorsign), unary<T, T>("neg" + one, neg),
         unary<T, T>("abs" + one, abs), binary<T, T, T>("add.sat" + one, sat)});
  check({binary<P, P, P>("add" + two, on_pairs<T>(add)),
         binary<P, P, P>("sub" + two, on_pairs<T>(sub)),
         binary<P, P, P>("mul" + two, on_pairs<T>(mul)),
         ternary<P, P, P, P>("fma.rn" + two, on_pairs<T>(fma)),
         binary<P, P, P>("min" + two, on_pairs<T>(min)),
         binary<P, P, P>("max.NaN" + two, on_pairs<T>(max_nan)),
         unary<P, P>("neg" + two, on_pairs<T>(neg)), unary<P, P>("abs" + two, on_pairs<T>(abs))});
}

TEST(HalfForms, HalvesAreRoundedOnce) { check_arithmetic<Half>(); }
TEST(HalfForms, BfloatsAreRoundedOnce) { check_arithmetic<Bfloat>(); }

TEST(HalfForms, FlushTakesSubnormalsOfHalves) {
  auto flushed = [](Half h) {
    return (h.bits & 0x7c00) == 0 ? Half{static_cast<uint16_t>(h.bits & 0x8000)} : h;
  };
  auto neg = [flushed](Half a) { return Half{static_cast<uint16_t>(flushed(a).bits ^ 0x8000)}; };
  auto abs = [flushed](Half a) { return Half{static_cast<uint16_t>(flushed(a).bits & 0x7fff)}; };
  check({binary<Half, Half, Half>("mul.ftz.f16",
                                  [flushed](Half a, Half b) {
                                    return flushed(
                                        encoded<Half>(value(flushed(a)) * value(flushed(b))));
                                  }),
         unary<Half, Half>("neg.ftz.f16", neg), unary<Half, Half>("abs.ftz.f16", abs)});
}

TEST(HalfForms, ApproximationsAreWithinTwoUnits) {
  check({unary<Half, Half>(
             "ex2.approx.f16", [](Half a) { return encoded<Half>(std::exp2(value(a))); }, 1),
         unary<Half, Half>(
             "tanh.approx.f16", [](Half a) { return encoded<Half>(std::tanh(value(a))); }, 2),
         unary<Bfloat, Bfloat>(
             "ex2.approx.ftz.bf16", [](Bfloat a) { return encoded<Bfloat>(std::exp2(value(a))); },
             1)});
}

template <typename T>
void check_comparisons() {
  using P = typename Traits<T>::Pair;
  const std::string one = std::string(".") + Traits<T>::kName, two = one + "x2";
  const uint32_t unit = Traits<T>::kFormat.mantissa == 10 ? 0x3c00 : 0x3f80;
  auto less = [](T a, T b) { return value(a) < value(b); };
  auto unequal = [](T a, T b) { return !(value(a) == value(b)); };
  auto halves = [](P p, unsigned h) { return T{static_cast<uint16_t>(p.bits >> (16 * h))}; };
  check({binary<bool, T, T>("setp.lt" + one, less), binary<bool, T, T>("setp.neu" + one, unequal),
         binary<uint32_t, T, T>("set.lt.u32" + one,
                                [less](T a, T b) { return less(a, b) ? ~0u : 0u; }),
         binary<P, P, P>("set.lt" + two + two,
                         [=](P a, P b) {
                           const uint32_t low = less(halves(a, 0), halves(b, 0)) ? unit : 0;
                           return P{low | (less(halves(a, 1), halves(b, 1)) ? unit << 16 : 0)};
                         }),
         binary<uint32_t, P, P>("set.lt.u32" + two,
                                [=](P a, P b) {
                                  const uint32_t low =
                                      less(halves(a, 0), halves(b, 0)) ? 0xffff : 0;
                                  return low | (less(halves(a, 1), halves(b, 1)) ? 0xffff0000u : 0);
                                }),
         binary<uint32_t, P, P>(
             "{ .reg .pred p, q; .reg .b32 x, y; setp.lt" + two +
                 " p|q, $a, $b; selp.u32 x, 1, 0, p; selp.u32 y, 2, 0, q; or.b32 $d, x, y; }",
             [=](P a, P b) {
               const uint32_t low = less(halves(a, 0), halves(b, 0)) ? 1 : 0;
               return low | (less(halves(a, 1), halves(b, 1)) ? 2u : 0);
             })});
}

TEST(HalfForms, HalvesCompare) { check_comparisons<Half>(); }
TEST(HalfForms, BfloatsCompare) { check_comparisons<Bfloat>(); }

}  // namespace
}  // namespace vgpu::softgpu
