// cuBLAS: matrix products of three precisions, vectors, triangular systems, batches.
// SPDX-License-Identifier: Apache-2.0
#include <cublas_v2.h>
#include <cuda_fp16.h>

#include <cmath>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr int kM = 70, kN = 50, kK = 90;

template <typename T>
std::vector<T> numbers(size_t count, int period) {
  std::vector<T> made(count);
  for (size_t i = 0; i < count; ++i) {
    made[i] = static_cast<T>(static_cast<float>(static_cast<int>(i % period) - period / 2));
  }
  return made;
}

// c = a * b, columns after one another; whole numbers, so that every order of sums gives the same.
template <typename T, typename Call>
bool product(const char* name, Call call) {
  const std::vector<T> a = numbers<T>(kM * kK, 13), b = numbers<T>(kK * kN, 7);
  Array<T> device_a(a), device_b(b), device_c(kM * kN);
  if (call(device_a.get(), device_b.get(), device_c.get()) != CUBLAS_STATUS_SUCCESS) {
    return report(name, false);
  }
  const std::vector<T> c = device_c.read();
  bool good = true;
  for (int j = 0; j < kN; ++j) {
    for (int i = 0; i < kM; ++i) {
      double want = 0;
      for (int k = 0; k < kK; ++k) {
        want += static_cast<double>(a[i + k * kM]) * static_cast<double>(b[k + j * kK]);
      }
      good &= static_cast<double>(c[i + j * kM]) == want;
    }
  }
  return report(name, good);
}

bool check_products(cublasHandle_t blas) {
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  bool good = product<float>("sgemm", [&](float* a, float* b, float* c) {
    return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &one, a, kM, b, kK, &zero, c,
                       kM);
  });
  good &= product<double>("dgemm", [&](double* a, double* b, double* c) {
    return cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &wide_one, a, kM, b, kK,
                       &wide_zero, c, kM);
  });
  good &= product<__half>("gemmEx of halves", [&](__half* a, __half* b, __half* c) {
    return cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN, kK, &one, a, CUDA_R_16F, kM, b,
                        CUDA_R_16F, kK, &zero, c, CUDA_R_16F, kM, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  });
  return good & product<float>("sgemmStridedBatched", [&](float* a, float* b, float* c) {
           return cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, kM, kN / 2, kK, &one, a,
                                            kM, 0, b, kK, kK * kN / 2, &zero, c, kM, kM * kN / 2,
                                            2);
         });
}

bool check_vectors(cublasHandle_t blas) {
  constexpr int kCount = 1000;
  const std::vector<float> host = numbers<float>(kCount, 11);
  double sum = 0, squares = 0;
  for (float x : host) sum += std::fabs(x), squares += x * x;
  Array<float> x(host), y(host), matrix(numbers<float>(kM * kK, 13)), out(kM);
  float value = 0;
  const float two = 2, one = 1, zero = 0;
  bool good = report(
      "sdot", cublasSdot(blas, kCount, x.get(), 1, x.get(), 1, &value) == 0 && value == squares);
  good &= report("sasum", cublasSasum(blas, kCount, x.get(), 1, &value) == 0 && value == sum);
  good &= report("snrm2", cublasSnrm2(blas, kCount, x.get(), 1, &value) == 0 &&
                              std::fabs(value - std::sqrt(squares)) < 1e-4);
  int place = 0;
  good &= report("isamax", cublasIsamax(blas, kCount, x.get(), 1, &place) == 0 && place == 1);
  good &= report("saxpy, sscal", cublasSaxpy(blas, kCount, &two, x.get(), 1, y.get(), 1) == 0 &&
                                     cublasSscal(blas, kCount, &two, y.get(), 1) == 0 &&
                                     y.first() == 6 * host[0]);
  const bool called = cublasSgemv(blas, CUBLAS_OP_N, kM, kK, &one, matrix.get(), kM, x.get(), 1,
                                  &zero, out.get(), 1) == CUBLAS_STATUS_SUCCESS;
  const std::vector<float> a = matrix.read(), got = out.read();
  bool same = called;
  for (int i = 0; i < kM; ++i) {
    double want = 0;
    for (int k = 0; k < kK; ++k) want += static_cast<double>(a[i + k * kM]) * host[k];
    same &= got[i] == want;
  }
  return good & report("sgemv", same);
}

// Unit lower triangles of ones: the solution of ones is one one and zeros.
bool check_triangles(cublasHandle_t blas) {
  constexpr int kSide = 40;
  const float one = 1;
  Array<float> triangle(std::vector<float>(kSide * kSide, 1)), x(std::vector<float>(kSide, 1)),
      many(std::vector<float>(kSide * kSide, 1));
  bool solved = cublasStrsv(blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_UNIT, kSide,
                            triangle.get(), kSide, x.get(), 1) == CUBLAS_STATUS_SUCCESS;
  std::vector<float> want(kSide);
  want[0] = 1;
  bool good = report("strsv", solved && x.read() == want);
  solved = cublasStrsm(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                       CUBLAS_DIAG_UNIT, kSide, kSide, &one, triangle.get(), kSide, many.get(),
                       kSide) == CUBLAS_STATUS_SUCCESS;
  return good & report("strsm", solved && many.read(kSide) == want);
}

}  // namespace

int main() {
  cublasHandle_t blas = nullptr;
  bool good = report("create", cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS);
  if (good) {
    good &= check_products(blas);
    good &= check_vectors(blas);
    good &= check_triangles(blas);
    good &= report("destroy", cublasDestroy(blas) == CUBLAS_STATUS_SUCCESS);
  }
  return app::finish("cublas", good);
}
