// Shuffles, matches and mathematical functions of compiled kernels.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <cstdint>

#include "softgpu/jit/runtime.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace vgpu::softgpu {
namespace {

// Returns the predicate of each lane.
uint32_t shuffle(uint32_t mode, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                 uint32_t* out) {
  uint32_t valid = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    bool inside = false;
    out[lane] = a[shuffle_source(mode, lane, b[lane], c[lane], &inside)];
    if (inside) valid |= 1u << lane;
  }
  return valid;
}

// match.any: per lane the lanes with the same value. match.all: the mask when all agree, else 0.
uint32_t match(uint32_t all, const uint64_t* v, uint32_t mask, uint32_t* out) {
  uint32_t agree = 1;
  const int first = mask == 0 ? 0 : __builtin_ctz(mask);
  for (uint32_t i = 0; i < 32; ++i) {
    uint32_t same = 0;
    for (uint32_t j = 0; j < 32; ++j) {
      if ((mask >> j & 1) != 0 && v[j] == v[i]) same |= 1u << j;
    }
    out[i] = same;
    if ((mask >> i & 1) != 0 && v[i] != v[first]) agree = 0;
  }
  if (all != 0) {
    for (uint32_t i = 0; i < 32; ++i) out[i] = agree != 0 ? mask : 0;
  }
  return agree;
}

template <float (*F)(float)>
void each(float* v, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) v[i] = F(v[i]);
}

float exp2_of(float x) { return std::exp2(x); }
float log2_of(float x) { return std::log2(x); }
float sine(float x) { return std::sin(x); }
float cosine(float x) { return std::cos(x); }
float tanh_of(float x) { return std::tanh(x); }

uint64_t clock_cycles() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

uint64_t timer_ns() {
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

template <typename F>
void* address_of(F* f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

std::span<const RuntimeSymbol> runtime_warp_symbols() {
  static const RuntimeSymbol kSymbols[] = {
      {"sg_shuffle", address_of(shuffle)},
      {"sg_match", address_of(match)},
      {"sg_ex2", address_of(each<exp2_of>)},
      {"sg_lg2", address_of(each<log2_of>)},
      {"sg_sin", address_of(each<sine>)},
      {"sg_cos", address_of(each<cosine>)},
      {"sg_tanh", address_of(each<tanh_of>)},
      {"sg_clock", address_of(clock_cycles)},
      {"sg_timer", address_of(timer_ns)},
      {"fmodf", address_of(static_cast<float (*)(float, float)>(std::fmod))},
      {"fmaf", address_of(static_cast<float (*)(float, float, float)>(std::fma))},
      {"fma", address_of(static_cast<double (*)(double, double, double)>(std::fma))},
      {"rintf", address_of(static_cast<float (*)(float)>(std::rint))},
      {"rint", address_of(static_cast<double (*)(double)>(std::rint))},
      {"floorf", address_of(static_cast<float (*)(float)>(std::floor))},
      {"floor", address_of(static_cast<double (*)(double)>(std::floor))},
      {"ceilf", address_of(static_cast<float (*)(float)>(std::ceil))},
      {"ceil", address_of(static_cast<double (*)(double)>(std::ceil))},
      {"truncf", address_of(static_cast<float (*)(float)>(std::trunc))},
      {"trunc", address_of(static_cast<double (*)(double)>(std::trunc))},
      {"fminf", address_of(static_cast<float (*)(float, float)>(std::fmin))},
      {"fmaxf", address_of(static_cast<float (*)(float, float)>(std::fmax))},
      {"fmin", address_of(static_cast<double (*)(double, double)>(std::fmin))},
      {"fmax", address_of(static_cast<double (*)(double, double)>(std::fmax))}};
  return kSymbols;
}

}  // namespace vgpu::softgpu
