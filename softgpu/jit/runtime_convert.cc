// Conversions to and from small floats, by their bits.
// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "softgpu/jit/runtime.h"
#include "softgpu/jit/small_format.h"

namespace vgpu::softgpu {
namespace {

struct Format {
  uint32_t exponent, mantissa;
  SmallTop top;
  SmallRound mode;
  bool finite;

  explicit Format(uint32_t code)
      : exponent(code & 15),
        mantissa(code >> 4 & 31),
        top(static_cast<SmallTop>(code >> 9 & 7)),
        mode(static_cast<SmallRound>(code >> 12 & 15)),
        finite((code >> 16 & 1) != 0) {}
  uint32_t ones() const { return (1u << (exponent + mantissa)) - 1; }  // without the sign
  uint32_t largest() const {
    if (top == SmallTop::kIeee) return ones() - (1u << mantissa);
    return top == SmallTop::kNumbers ? ones() : ones() - 1;
  }
  int bias() const { return (1 << (exponent - 1)) - 1; }
};

// Adds one to `kept` when the bits that were cut off ask for it. `rest` of `unit` was lost.
uint64_t round_up(uint64_t kept, uint64_t rest, uint64_t unit, bool negative, SmallRound mode) {
  if (rest == 0) return kept;
  const uint64_t half = unit / 2;
  switch (mode) {
    case SmallRound::kNearest:
      return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
    case SmallRound::kAway:
      return kept + (rest >= half ? 1 : 0);
    case SmallRound::kDown:
      return kept + (negative ? 1 : 0);
    case SmallRound::kUp:
      return kept + (negative ? 0 : 1);
    case SmallRound::kZero:
      break;
  }
  return kept;
}

// The exponent alone: powers of two from 2^-127 to 2^127, of the magnitude.
uint32_t encode_exponent(double v, const Format& f) {
  if (v != v) return 0xff;
  const double size = std::abs(v);
  if (size > 0x1p127) return f.finite ? 0xfe : 0xff;
  if (size <= 0x1p-127) return 0;
  const uint64_t bits = std::bit_cast<uint64_t>(size);
  const uint32_t e = static_cast<uint32_t>((bits >> 52) - 1023 + 127);
  const bool above = (bits & ((1ull << 52) - 1)) != 0;
  return e + (f.mode == SmallRound::kUp && above ? 1 : 0);
}

uint32_t encode(double v, const Format& f) {
  if (f.top == SmallTop::kExponent) return encode_exponent(v, f);
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  const bool negative = bits >> 63 != 0;
  const uint32_t sign = negative ? f.ones() + 1 : 0;
  if (v != v) return f.top == SmallTop::kNumbers ? f.largest() : f.ones();
  const bool towards_zero = f.mode == SmallRound::kZero ||
                            (f.mode == SmallRound::kDown && !negative) ||
                            (f.mode == SmallRound::kUp && negative);
  const uint32_t infinity = f.top == SmallTop::kIeee ? f.largest() + 1 : f.largest();
  const uint32_t over = f.finite ? f.largest() : infinity;
  if (std::isinf(v)) return sign | over;
  const int source_exponent = static_cast<int>(bits >> 52 & 0x7ff);
  if (source_exponent == 0) {  // zero, or far below everything
    const bool up = (bits << 1) != 0 && (f.mode == SmallRound::kUp && !negative);
    const bool down = (bits << 1) != 0 && (f.mode == SmallRound::kDown && negative);
    return sign | (up || down ? 1u : 0u);
  }
  const uint64_t significand = (bits & ((1ull << 52) - 1)) | 1ull << 52;
  const int e = source_exponent - 1023 + f.bias();  // exponent field if normal
  int cut = 52 - static_cast<int>(f.mantissa) + (e < 1 ? 1 - e : 0);
  uint64_t kept = 0, rest = significand, unit = 1ull << 62;
  if (cut < 62) {
    unit = 1ull << cut;
    kept = significand >> cut;
    rest = significand & (unit - 1);
  }
  kept = round_up(kept, rest, unit, negative, f.mode);
  // The hidden bit carries into the exponent field by itself.
  const uint64_t pattern = e < 1 ? kept : kept + (static_cast<uint64_t>(e - 1) << f.mantissa);
  if (pattern > f.largest()) return sign | (towards_zero ? f.largest() : over);
  return sign | static_cast<uint32_t>(pattern);
}

float decode(uint32_t bits, const Format& f) {
  const uint32_t size = bits & f.ones();
  if (f.top == SmallTop::kExponent) {
    if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
    return std::ldexp(1.0f, static_cast<int>(bits) - 127);
  }
  const uint32_t e = size >> f.mantissa, m = size & ((1u << f.mantissa) - 1);
  const int shift = -f.bias() - static_cast<int>(f.mantissa);
  float v =
      e == 0 ? std::ldexp(static_cast<float>(m), 1 + shift)
             : std::ldexp(static_cast<float>(m + (1u << f.mantissa)), static_cast<int>(e) + shift);
  if (size > f.largest()) {
    v = f.top == SmallTop::kIeee && m == 0 ? std::numeric_limits<float>::infinity()
                                           : std::numeric_limits<float>::quiet_NaN();
  }
  return (bits & (f.ones() + 1)) != 0 ? -v : v;
}

void encode_all(uint32_t* out, const double* in, uint32_t code, uint32_t count) {
  const Format f(code);
  for (uint32_t i = 0; i < count; ++i) out[i] = encode(in[i], f);
}

void decode_all(float* out, const uint32_t* in, uint32_t code, uint32_t count) {
  const Format f(code);
  for (uint32_t i = 0; i < count; ++i) out[i] = decode(in[i], f);
}

// The place of the n-th set bit of `mask` counted from `base`: upwards for n > 0, downwards for
// n < 0, the bit itself for 0. All ones when there is none.
void find_nth(uint32_t* out, const uint32_t* mask, const uint32_t* base, const int32_t* offset,
              uint32_t, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = ~0u;
    int64_t n = offset[i];
    const int64_t step = n < 0 ? -1 : 1;
    if (n == 0) n = (base[i] < 32 && (mask[i] >> base[i] & 1) != 0) ? 1 : 33;
    if (n < 0) n = -n;
    for (int64_t at = base[i]; at >= 0 && at < 32; at += step) {
      if ((mask[i] >> at & 1) == 0 || --n > 0) continue;
      out[i] = static_cast<uint32_t>(at);
      break;
    }
  }
}

}  // namespace

uint32_t encode_small_float(double v, uint32_t format) { return encode(v, Format(format)); }
float decode_small_float(uint32_t bits, uint32_t format) { return decode(bits, Format(format)); }

std::span<const RuntimeSymbol> runtime_convert_symbols() {
  static const RuntimeSymbol kSymbols[] = {{"sg_find_nth", reinterpret_cast<void*>(find_nth)},
                                           {"sg_encode", reinterpret_cast<void*>(encode_all)},
                                           {"sg_decode", reinterpret_cast<void*>(decode_all)}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
