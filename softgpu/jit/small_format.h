// Numbers under which emitted code asks the runtime for conversions to and from small floats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace vgpu::softgpu {

// What the patterns with the top exponent mean: infinity and NaN; all ones is NaN and the rest are
// numbers; all are numbers; no sign, only an exponent, all ones is NaN.
enum class SmallTop : uint32_t { kIeee, kOneNaN, kNumbers, kExponent };
enum class SmallRound : uint32_t { kNearest, kAway, kZero, kDown, kUp };

// exponent bits | mantissa bits << 4 | top << 9 | rounding << 12 | finite << 16
constexpr uint32_t small_format(uint32_t exponent, uint32_t mantissa, SmallTop top) {
  return exponent | mantissa << 4 | static_cast<uint32_t>(top) << 9;
}
constexpr uint32_t with_rounding(uint32_t format, SmallRound mode, bool finite) {
  return format | static_cast<uint32_t>(mode) << 12 | (finite ? 1u << 16 : 0u);
}

inline constexpr uint32_t kFormatHalf = small_format(5, 10, SmallTop::kIeee),
                          kFormatBfloat = small_format(8, 7, SmallTop::kIeee),
                          kFormatTf32 = small_format(8, 10, SmallTop::kIeee),
                          kFormatE5m2 = small_format(5, 2, SmallTop::kIeee),
                          kFormatE4m3 = small_format(4, 3, SmallTop::kOneNaN),
                          kFormatE2m3 = small_format(2, 3, SmallTop::kNumbers),
                          kFormatE3m2 = small_format(3, 2, SmallTop::kNumbers),
                          kFormatE2m1 = small_format(2, 1, SmallTop::kNumbers),
                          kFormatE8m0 = small_format(8, 0, SmallTop::kExponent);

// runtime_convert.cc. The pattern of v in the format, with its rounding; the value of a pattern.
uint32_t encode_small_float(double v, uint32_t format);
float decode_small_float(uint32_t bits, uint32_t format);

}  // namespace vgpu::softgpu
