// cuFFT: complex and real transforms of several kinds of lengths, in one and two dimensions.
// SPDX-License-Identifier: Apache-2.0
#include <cufft.h>

#include <cmath>
#include <complex>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;
using Complex = std::complex<float>;
using Wide = std::complex<double>;

Wide turn(size_t i, size_t k, size_t n) {
  return std::polar(1.0, -2 * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n));
}

// How far the first results are from sums that were made slowly, and all of them after the way back
// from where they began.
bool complex_both_ways(int n) {
  std::vector<Complex> in(n);
  for (int i = 0; i < n; ++i) {
    in[i] = {static_cast<float>(i * 7 % 11) - 5, static_cast<float>(i * 3 % 5)};
  }
  Array<Complex> data(in);
  auto* const at = reinterpret_cast<cufftComplex*>(data.get());
  cufftHandle plan = 0;
  bool good = cufftPlan1d(&plan, n, CUFFT_C2C, 1) == CUFFT_SUCCESS &&
              cufftExecC2C(plan, at, at, CUFFT_FORWARD) == CUFFT_SUCCESS;
  const std::vector<Complex> out = data.read();
  for (int k = 0; k < std::min(n, 20); ++k) {
    Wide want = 0;
    for (int i = 0; i < n; ++i) want += Wide(in[i]) * turn(i, k, n);
    good &= std::abs(want - Wide(out[k])) < 1e-4 * n;
  }
  good &= cufftExecC2C(plan, at, at, CUFFT_INVERSE) == CUFFT_SUCCESS;
  const std::vector<Complex> back = data.read();
  for (int i = 0; i < n; ++i) good &= std::abs(back[i] / static_cast<float>(n) - in[i]) < 1e-4;
  good &= cufftDestroy(plan) == CUFFT_SUCCESS;
  std::printf("C2C of %d: ", n);
  return report("there and back", good);
}

bool real_forward(int n) {
  std::vector<float> in(n);
  for (int i = 0; i < n; ++i) in[i] = static_cast<float>(i * 7 % 11) - 5;
  Array<float> data(in);
  Array<Complex> result(n / 2 + 1);
  cufftHandle plan = 0;
  bool good = cufftPlan1d(&plan, n, CUFFT_R2C, 1) == CUFFT_SUCCESS &&
              cufftExecR2C(plan, data.get(), reinterpret_cast<cufftComplex*>(result.get())) ==
                  CUFFT_SUCCESS;
  const std::vector<Complex> out = result.read();
  for (int k = 0; k <= n / 2; ++k) {
    Wide want = 0;
    for (int i = 0; i < n; ++i) want += static_cast<double>(in[i]) * turn(i, k, n);
    good &= std::abs(want - Wide(out[k])) < 1e-4 * n;
  }
  good &= cufftDestroy(plan) == CUFFT_SUCCESS;
  std::printf("R2C of %d: ", n);
  return report("there", good);
}

// One impulse becomes ones everywhere.
bool doubles_in_two_dimensions() {
  constexpr int kSide = 64;
  std::vector<Wide> in(kSide * kSide);
  in[0] = 1;
  Array<Wide> data(in);
  auto* const at = reinterpret_cast<cufftDoubleComplex*>(data.get());
  cufftHandle plan = 0;
  bool good = cufftPlan2d(&plan, kSide, kSide, CUFFT_Z2Z) == CUFFT_SUCCESS &&
              cufftExecZ2Z(plan, at, at, CUFFT_FORWARD) == CUFFT_SUCCESS;
  for (const Wide& x : data.read()) good &= std::abs(x - 1.0) < 1e-12;
  good &= cufftDestroy(plan) == CUFFT_SUCCESS;
  return report("Z2Z of 64 x 64", good);
}

}  // namespace

int main() {
  bool good = true;
  for (int n : {64, 97, 1000, 4096}) good &= complex_both_ways(n);
  good &= real_forward(256);
  good &= doubles_in_two_dimensions();
  return app::finish("cufft", good);
}
