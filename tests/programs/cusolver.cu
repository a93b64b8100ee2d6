// cuSOLVER: systems by LU and Cholesky, eigenvalues of a symmetric matrix.
// SPDX-License-Identifier: Apache-2.0
#include <cusolverDn.h>

#include <cmath>
#include <numeric>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr int kSide = 64;
constexpr cublasFillMode_t kLower = CUBLAS_FILL_MODE_LOWER;

double symmetric(int i, int j) { return 1.0 / (1 + std::abs(i - j)) + (i == j ? kSide : 0); }

template <typename F>
std::vector<double> matrix(F element) {
  std::vector<double> made(kSide * kSide);
  for (int j = 0; j < kSide; ++j) {
    for (int i = 0; i < kSide; ++i) made[i + j * kSide] = element(i, j);
  }
  return made;
}

// The right-hand side whose solution is 1, 2, 3 ...
std::vector<double> right_side(const std::vector<double>& a) {
  std::vector<double> b(kSide);
  for (int j = 0; j < kSide; ++j) {
    for (int i = 0; i < kSide; ++i) b[i] += a[i + j * kSide] * (j + 1);
  }
  return b;
}

bool counts_up(const std::vector<double>& x) {
  bool good = true;
  for (int i = 0; i < kSide; ++i) good &= std::fabs(x[i] - i - 1) < 1e-9;
  return good;
}

bool check_lu(cusolverDnHandle_t solver) {
  const auto a = matrix([](int i, int j) { return (i * 7 + j * 3) % 11 - 5 + (i == j ? 50 : 0); });
  Array<double> device_a(a), b(right_side(a));
  Array<int> pivots(kSide), info(1);
  int room = 0;
  bool good = cusolverDnDgetrf_bufferSize(solver, kSide, kSide, device_a.get(), kSide, &room) == 0;
  Array<double> work(room);
  good &= cusolverDnDgetrf(solver, kSide, kSide, device_a.get(), kSide, work.get(), pivots.get(),
                           info.get()) == 0 &&
          info.first() == 0;
  good &= cusolverDnDgetrs(solver, CUBLAS_OP_N, kSide, 1, device_a.get(), kSide, pivots.get(),
                           b.get(), kSide, info.get()) == 0 &&
          info.first() == 0;
  return report("getrf, getrs", good && counts_up(b.read()));
}

bool check_cholesky(cusolverDnHandle_t solver) {
  const auto a = matrix(symmetric);
  Array<double> device_a(a), b(right_side(a));
  Array<int> info(1);
  int room = 0;
  bool good = cusolverDnDpotrf_bufferSize(solver, kLower, kSide, device_a.get(), kSide, &room) == 0;
  Array<double> work(room);
  good &= cusolverDnDpotrf(solver, kLower, kSide, device_a.get(), kSide, work.get(), room,
                           info.get()) == 0 &&
          info.first() == 0;
  good &= cusolverDnDpotrs(solver, kLower, kSide, 1, device_a.get(), kSide, b.get(), kSide,
                           info.get()) == 0 &&
          info.first() == 0;
  return report("potrf, potrs", good && counts_up(b.read()));
}

// a * v = v * w, column by column.
bool check_eigenvalues(cusolverDnHandle_t solver) {
  const auto a = matrix(symmetric);
  Array<double> vectors(a), values(kSide);
  Array<int> info(1);
  int room = 0;
  constexpr auto kVectors = CUSOLVER_EIG_MODE_VECTOR;
  bool good = cusolverDnDsyevd_bufferSize(solver, kVectors, kLower, kSide, vectors.get(), kSide,
                                          values.get(), &room) == 0;
  Array<double> work(room);
  good &= cusolverDnDsyevd(solver, kVectors, kLower, kSide, vectors.get(), kSide, values.get(),
                           work.get(), room, info.get()) == 0 &&
          info.first() == 0;
  const std::vector<double> v = vectors.read(), w = values.read();
  for (int column = 0; column < kSide; ++column) {
    for (int i = 0; i < kSide; ++i) {
      double left = 0;
      for (int k = 0; k < kSide; ++k) left += a[i + k * kSide] * v[k + column * kSide];
      good &= std::fabs(left - w[column] * v[i + column * kSide]) < 1e-9;
    }
  }
  return report("syevd", good);
}

}  // namespace

int main() {
  cusolverDnHandle_t solver = nullptr;
  bool good = report("create", cusolverDnCreate(&solver) == CUSOLVER_STATUS_SUCCESS);
  if (good) {
    good &= check_lu(solver);
    good &= check_cholesky(solver);
    good &= check_eigenvalues(solver);
    good &= report("destroy", cusolverDnDestroy(solver) == CUSOLVER_STATUS_SUCCESS);
  }
  return app::finish("cusolver", good);
}
