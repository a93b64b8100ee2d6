// f32 and f64 arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>

#include "instruction.h"

namespace vgpu::softgpu {
namespace {

// Never inlined: the compiler would move arithmetic past the change of the rounding mode.
template <typename F, typename... V>
[[gnu::noipa]] auto call(F f, V... v) {
  return f(v...);
}

// f under a rounding mode of the host's arithmetic.
template <typename F>
auto rounded(int mode, F f) {
  return [mode, f](auto... v) {
    std::fesetround(mode);
    auto r = call(f, v...);
    std::fesetround(FE_TONEAREST);
    return r;
  };
}

struct Mode {
  const char* name;
  int host;
};
constexpr Mode kModes[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <typename T>
void check_rounding(const std::string& type) {
  for (const Mode& m : kModes) {
    const std::string tail = std::string(".") + m.name + "." + type;
    auto add = [](T a, T b) { return a + b; };
    auto sub = [](T a, T b) { return a - b; };
    auto mul = [](T a, T b) { return a * b; };
    auto div = [](T a, T b) { return a / b; };
    auto fma = [](T a, T b, T c) { return std::fma(a, b, c); };
    auto root = [](T a) { return std::sqrt(a); };
    auto inverse = [](T a) { return T(1) / a; };
    check({binary<T, T, T>("add" + tail, rounded(m.host, add)),
           binary<T, T, T>("sub" + tail, rounded(m.host, sub)),
           binary<T, T, T>("mul" + tail, rounded(m.host, mul)),
           binary<T, T, T>("div" + tail, rounded(m.host, div)),
           ternary<T, T, T, T>("fma" + tail, rounded(m.host, fma)),
           ternary<T, T, T, T>("mad" + tail, rounded(m.host, fma)),
           unary<T, T>("sqrt" + tail, rounded(m.host, root)),
           unary<T, T>("rcp" + tail, rounded(m.host, inverse))});
  }
}

TEST(FloatForms, RoundSinglesAsTheySay) { check_rounding<float>("f32"); }
TEST(FloatForms, RoundDoublesAsTheySay) { check_rounding<double>("f64"); }

}  // namespace
}  // namespace vgpu::softgpu
