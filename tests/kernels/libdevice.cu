// One kernel for each function of the CUDA mathematics library; nvcc makes PTX of it.
// SPDX-License-Identifier: Apache-2.0
#define ONE(name, type, f)                                               \
  extern "C" __global__ void name(type* d, const type* a, const type*) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                 \
    d[i] = f(a[i]);                                                      \
  }
#define TWO(name, type, f)                                                 \
  extern "C" __global__ void name(type* d, const type* a, const type* b) { \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;                   \
    d[i] = f(a[i], b[i]);                                                  \
  }
#define BOTH(name) ONE(name##_f, float, name##f) ONE(name##_d, double, name)
#define BOTH2(name) TWO(name##_f, float, name##f) TWO(name##_d, double, name)
// clang-format off
BOTH(exp) BOTH(exp2) BOTH(exp10) BOTH(expm1) BOTH(log) BOTH(log2) BOTH(log10) BOTH(log1p)
BOTH(sin) BOTH(cos) BOTH(tan) BOTH(asin) BOTH(acos) BOTH(atan) BOTH(sinh) BOTH(cosh) BOTH(tanh)
BOTH(asinh) BOTH(acosh) BOTH(atanh) BOTH(erf) BOTH(erfc) BOTH(tgamma) BOTH(cbrt) BOTH(rsqrt)
BOTH2(atan2) BOTH2(pow) BOTH2(hypot) BOTH2(fmod)
ONE(sqrt_f, float, sqrtf) ONE(fast_sin, float, __sinf) ONE(fast_cos, float, __cosf)
ONE(fast_exp, float, __expf) ONE(fast_log, float, __logf)
    // clang-format on
