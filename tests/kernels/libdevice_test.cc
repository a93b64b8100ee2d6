// The CUDA mathematics library, as nvcc inlines it, within the bounds that CUDA's manual gives.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "executor.h"

namespace vgpu::softgpu {
namespace {

constexpr uint32_t kCount = 4096;

using One = long double (*)(long double);
using Two = long double (*)(long double, long double);

struct Row {
  const char* name;
  double low, high;  // of the arguments; with `powers` of both: exponents of 2 are uniform
  One one;
  Two two;
  double single_ulps, double_ulps;
};

long double rsqrt_of(long double x) { return 1 / std::sqrt(x); }
long double exp10_of(long double x) { return std::pow(10.0L, x); }

const Row kRows[] = {
    {"exp", -80, 80, std::exp, nullptr, 2, 1},
    {"exp2", -120, 120, std::exp2, nullptr, 2, 1},
    {"exp10", -35, 35, exp10_of, nullptr, 2, 1},
    {"expm1", -5, 80, std::expm1, nullptr, 1, 1},
    {"log", 1e-30, 1e4, std::log, nullptr, 1, 1},
    {"log2", 1e-30, 1e4, std::log2, nullptr, 1, 1},
    {"log10", 1e-30, 1e4, std::log10, nullptr, 2, 1},
    {"log1p", -0.9, 1e4, std::log1p, nullptr, 1, 1},
    {"sin", -1e4, 1e4, std::sin, nullptr, 2, 2},
    {"cos", -1e4, 1e4, std::cos, nullptr, 2, 2},
    {"tan", -1e4, 1e4, std::tan, nullptr, 4, 2},
    {"asin", -1, 1, std::asin, nullptr, 2, 2},
    {"acos", -1, 1, std::acos, nullptr, 2, 2},
    {"atan", -100, 100, std::atan, nullptr, 2, 2},
    {"sinh", -80, 80, std::sinh, nullptr, 3, 2},
    {"cosh", -80, 80, std::cosh, nullptr, 2, 1},
    {"tanh", -10, 10, std::tanh, nullptr, 2, 1},
    {"asinh", -1e4, 1e4, std::asinh, nullptr, 3, 3},
    {"acosh", 1, 1e4, std::acosh, nullptr, 4, 3},
    {"atanh", -0.999, 0.999, std::atanh, nullptr, 3, 2},
    {"erf", -5, 5, std::erf, nullptr, 2, 2},
    {"erfc", -5, 8, std::erfc, nullptr, 4, 5},
    {"tgamma", 0.1, 30, std::tgamma, nullptr, 5, 10},
    {"cbrt", -1e6, 1e6, std::cbrt, nullptr, 1, 1},
    {"rsqrt", 1e-20, 1e10, rsqrt_of, nullptr, 2, 1},
    {"atan2", -100, 100, nullptr, std::atan2, 3, 2},
    {"pow", 0.01, 20, nullptr, std::pow, 4, 2},
    {"hypot", -1e6, 1e6, nullptr, std::hypot, 3, 2},
    {"fmod", -1e6, 1e6, nullptr, std::fmod, 0, 0},
    {"fast_exp", -20, 20, std::exp, nullptr, 2 + 20 * 1.173, -1},
    {"sqrt", 0, 1e20, std::sqrt, nullptr, 0, -1},
};

std::unique_ptr<TestModule> library() {
  std::ifstream file(VGPU_LIBDEVICE_PTX);
  std::stringstream text;
  text << file.rdbuf();
  std::string error;
  auto module = TestModule::load(text.str(), &error);
  EXPECT_NE(module, nullptr) << error;
  return module;
}

template <typename T>
double ulps_between(T got, long double want) {
  const T near = static_cast<T>(want);
  if (got != got || near != near) return got != got && near != near ? 0 : INFINITY;
  if (std::isinf(got) || std::isinf(near)) return got == near ? 0 : INFINITY;
  const T size = std::max(std::abs(near), std::numeric_limits<T>::min());
  const T ulp = size - std::nextafter(size, T(0));
  return static_cast<double>(std::abs(static_cast<long double>(got) - want) / ulp);
}

template <typename T>
void check_row(TestModule* module, const Row& row, const std::string& name, double bound) {
  std::vector<T> a(kCount), b(kCount), d(kCount);
  std::mt19937_64 random(5);
  auto between = [&] {
    return row.low + (row.high - row.low) * (static_cast<double>(random() >> 11) * 0x1p-53);
  };
  for (uint32_t i = 0; i < kCount; ++i) {
    a[i] = static_cast<T>(between());
    b[i] = static_cast<T>(between());
  }
  const uint64_t params[3] = {reinterpret_cast<uint64_t>(d.data()),
                              reinterpret_cast<uint64_t>(a.data()),
                              reinterpret_cast<uint64_t>(b.data())};
  Launch launch;
  launch.grid.x = kCount / 128;
  launch.block.x = 128;
  launch.params = params;
  std::string error;
  const int kernel = module->kernel(name);
  ASSERT_GE(kernel, 0) << name;
  ASSERT_TRUE(module->run(kernel, Lanes::kWarp, launch, &error)) << name << ": " << error;
  double worst = 0;
  T at = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    const long double want = row.one != nullptr ? row.one(a[i]) : row.two(a[i], b[i]);
    const double off = ulps_between(d[i], want);
    if (off > worst) worst = off, at = a[i];
  }
  // Half a unit more: the manual's figures compare with the rounded result.
  EXPECT_LE(worst, bound + 0.5) << name << " at " << at;
}

TEST(Libdevice, SinglesAreWithinTheManualsBounds) {
  auto module = library();
  ASSERT_NE(module, nullptr);
  for (const Row& row : kRows) {
    const bool fast = std::string(row.name).rfind("fast_", 0) == 0;
    check_row<float>(module.get(), row, row.name + std::string(fast ? "" : "_f"), row.single_ulps);
  }
}

TEST(Libdevice, DoublesAreWithinTheManualsBounds) {
  auto module = library();
  ASSERT_NE(module, nullptr);
  for (const Row& row : kRows) {
    if (row.double_ulps >= 0)
      check_row<double>(module.get(), row, row.name + std::string("_d"), row.double_ulps);
  }
}

}  // namespace
}  // namespace vgpu::softgpu
