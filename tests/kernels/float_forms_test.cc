// f32 and f64 arithmetic.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>

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

template <typename T>
T least(T a, T b, bool most) {
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) != most ? a : b;
  return (a < b) != most ? a : b;
}
template <typename T>
T least_nan(T a, T b, bool most) {
  return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : least(a, b, most);
}
template <typename T>
T flushed(T v) {
  return std::abs(v) < std::numeric_limits<T>::min() ? std::copysign(T(0), v) : v;
}
template <typename T>
T clamped(T v) {
  return v > 0 ? (v < 1 ? v : 1) : 0;
}

TEST(FloatForms, ExtremesKnowNaNAndTheSignOfZero) {
  using F = float;
  using D = double;
  check({binary<F, F, F>("min.f32", [](F a, F b) { return least(a, b, false); }),
         binary<F, F, F>("max.f32", [](F a, F b) { return least(a, b, true); }),
         binary<D, D, D>("min.f64", [](D a, D b) { return least(a, b, false); }),
         binary<D, D, D>("max.f64", [](D a, D b) { return least(a, b, true); }),
         binary<F, F, F>("min.NaN.f32", [](F a, F b) { return least_nan(a, b, false); }),
         binary<F, F, F>("max.NaN.f32", [](F a, F b) { return least_nan(a, b, true); }),
         binary<F, F, F>("max.xorsign.abs.f32",
                         [](F a, F b) {
                           const F r = least(std::abs(a), std::abs(b), true);
                           return std::signbit(a) != std::signbit(b) ? -r : r;
                         }),
         ternary<F, F, F, F>("max.f32",
                             [](F a, F b, F c) { return least(least(a, b, true), c, true); })});
}

TEST(FloatForms, FlushAndSaturate) {
  using F = float;
  using D = double;
  check(
      {binary<F, F, F>("add.ftz.f32", [](F a, F b) { return flushed(flushed(a) + flushed(b)); }),
       binary<F, F, F>("mul.rn.ftz.f32", [](F a, F b) { return flushed(flushed(a) * flushed(b)); }),
       binary<F, F, F>("mul.sat.f32", [](F a, F b) { return clamped(a * b); }),
       ternary<F, F, F, F>("fma.rn.sat.f32",
                           [](F a, F b, F c) { return clamped(std::fma(a, b, c)); }),
       ternary<F, F, F, F>(
           "fma.rn.ftz.f32",
           [](F a, F b, F c) { return flushed(std::fma(flushed(a), flushed(b), flushed(c))); }),
       unary<F, F>("abs.ftz.f32", [](F a) { return std::abs(flushed(a)); }),
       unary<D, D>("rcp.approx.ftz.f64", [](D a) { return flushed(1 / flushed(a)); }),
       unary<D, D>("rsqrt.approx.ftz.f64", [](D a) { return 1 / std::sqrt(flushed(a)); }),
       unary<F, F>("neg.f32", [](F a) { return -a; }),
       binary<bool, F, F>("setp.lt.ftz.f32", [](F a, F b) { return flushed(a) < flushed(b); }),
       binary<bool, F, F>("setp.neu.f32", [](F a, F b) { return !(a == b); }),
       binary<F, F, F>("copysign.f32", [](F a, F b) { return std::copysign(b, a); }),
       unary<bool, F>("testp.subnormal.f32",
                      [](F a) { return std::fpclassify(a) == FP_SUBNORMAL; }),
       unary<bool, F>("testp.normal.f32", [](F a) { return std::isnormal(a); }),
       unary<bool, double>("testp.finite.f64", [](double a) { return std::isfinite(a); })});
}

TEST(FloatForms, ApproximationsAreWithinTheManualsBounds) {
  using F = float;
  auto wide = [](auto f) { return [f](F a) { return F(f(double{a})); }; };
  check({unary<F, F>("ex2.approx.f32", wide([](double a) { return std::exp2(a); }), 2),
         unary<F, F>("lg2.approx.f32", wide([](double a) { return std::log2(a); }), 2),
         unary<F, F>("sin.approx.f32", wide([](double a) { return std::sin(a); }), 2),
         unary<F, F>("cos.approx.f32", wide([](double a) { return std::cos(a); }), 2),
         unary<F, F>("tanh.approx.f32", wide([](double a) { return std::tanh(a); }), 2),
         unary<F, F>("rsqrt.approx.f32", wide([](double a) { return 1 / std::sqrt(a); }), 2),
         unary<F, F>("sqrt.approx.f32", wide([](double a) { return std::sqrt(a); }), 1),
         unary<F, F>("rcp.approx.f32", wide([](double a) { return 1 / a; }), 1),
         binary<F, F, F>(
             "div.full.f32", [](F a, F b) { return a / b; }, 2),
         binary<F, F, F>(
             "div.approx.f32", [](F a, F b) { return a / b; }, 2)});
}

}  // namespace
}  // namespace vgpu::softgpu
