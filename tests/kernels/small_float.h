// Small floating-point formats by exact arithmetic on doubles: references for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace vgpu::softgpu {

// n: nearest, ties to even; a: nearest, ties away; z, m, p: towards zero, down, up.
enum class Round : char { n = 'n', a = 'a', z = 'z', m = 'm', p = 'p' };

// A format with `exponent` and `mantissa` bits. Kind of its top exponent: infinity and NaN as IEEE;
// all ones is NaN and the rest are numbers (e4m3); all are numbers (e2m3, e3m2, e2m1).
enum class Top : char { kIeee, kOneNaN, kNumbers };
struct Format {
  unsigned exponent, mantissa;
  Top top = Top::kIeee;
};
inline constexpr Format kHalf{5, 10}, kBfloat{8, 7}, kSingle{8, 23}, kE5m2{5, 2},
    kE4m3{4, 3, Top::kOneNaN}, kE2m3{2, 3, Top::kNumbers}, kE3m2{3, 2, Top::kNumbers},
    kE2m1{2, 1, Top::kNumbers};

inline int bias(const Format& f) { return (1 << (f.exponent - 1)) - 1; }

inline uint32_t largest(const Format& f) {
  const uint32_t ones = (1u << (f.exponent + f.mantissa)) - 1;
  if (f.top == Top::kIeee) return ((1u << f.exponent) - 1) * (1u << f.mantissa) - 1;
  return f.top == Top::kOneNaN ? ones - 1 : ones;
}

inline double decode(uint32_t bits, const Format& f) {
  const uint32_t e = bits >> f.mantissa & ((1u << f.exponent) - 1);
  const uint32_t m = bits & ((1u << f.mantissa) - 1);
  const bool negative = (bits >> (f.exponent + f.mantissa) & 1) != 0;
  double v;
  if (f.top == Top::kIeee && e == (1u << f.exponent) - 1)
    v = m != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  else if (f.top == Top::kOneNaN && (bits & ((1u << (f.exponent + f.mantissa)) - 1)) > largest(f))
    v = std::numeric_limits<double>::quiet_NaN();
  else if (e == 0)
    v = std::ldexp(m, 1 - bias(f) - static_cast<int>(f.mantissa));
  else
    v = std::ldexp(m + (1u << f.mantissa), static_cast<int>(e) - bias(f) - int(f.mantissa));
  return negative ? -v : v;
}

// |v| as an integer number of `unit`s, rounded; `unit` is a power of two, and |v|/unit < 2^53.
inline double rounded_units(double size, double unit, bool negative, Round mode) {
  const double scaled = size / unit, low = std::floor(scaled), rest = scaled - low;
  if (rest == 0) return low;
  switch (mode) {
    case Round::n:
      return rest > 0.5 || (rest == 0.5 && std::fmod(low, 2) != 0) ? low + 1 : low;
    case Round::a:
      return rest >= 0.5 ? low + 1 : low;
    case Round::m:
      return negative ? low + 1 : low;
    case Round::p:
      return negative ? low : low + 1;
    default:
      return low;
  }
}

// v in the format. `finite`: what is too large becomes the largest number (satfinite), whatever the
// rounding.
inline uint32_t encode(double v, const Format& f, Round mode, bool finite = false) {
  const bool negative = std::signbit(v);
  const uint32_t sign = negative ? 1u << (f.exponent + f.mantissa) : 0;
  const uint32_t infinity = f.top == Top::kIeee ? largest(f) + 1 : largest(f);
  if (v != v) {
    if (f.top == Top::kIeee) return (1u << (f.exponent + f.mantissa)) - 1;
    return f.top == Top::kOneNaN ? largest(f) + 1 : largest(f);
  }
  if (std::isinf(v)) return sign | (finite ? largest(f) : infinity);
  const double size = std::abs(v);
  if (size == 0) return sign;
  int e;
  std::frexp(size, &e);
  const int lowest = 1 - bias(f);
  const int exponent = e - 1 < lowest ? lowest : e - 1;
  const double unit = std::ldexp(1.0, exponent - static_cast<int>(f.mantissa));
  const double value = rounded_units(size, unit, negative, mode) * unit;
  if (value > decode(largest(f), f)) {
    const bool towards_zero =
        mode == Round::z || (mode == Round::m && !negative) || (mode == Round::p && negative);
    return sign | (finite || towards_zero ? largest(f) : infinity);
  }
  if (value == 0) return sign;
  std::frexp(value, &e);
  if (e - 1 < lowest)
    return sign | static_cast<uint32_t>(value / std::ldexp(1.0, lowest - int(f.mantissa)));
  const double mantissa = value / std::ldexp(1.0, e - 1 - int(f.mantissa));
  return sign | static_cast<uint32_t>(e - 1 + bias(f)) << f.mantissa |
         (static_cast<uint32_t>(mantissa) & ((1u << f.mantissa) - 1));
}

}  // namespace vgpu::softgpu
