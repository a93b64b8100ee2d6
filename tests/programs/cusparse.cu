// cuSPARSE: a sparse matrix times a vector, by each algorithm, and times a few columns.
// SPDX-License-Identifier: Apache-2.0
#include <cusparse.h>

#include "cub_app.h"

namespace {

using app::Array;
using app::report;

constexpr int kRows = 1000, kColumns = 4;
constexpr cusparseOperation_t kPlain = CUSPARSE_OPERATION_NON_TRANSPOSE;

struct Sparse {
  std::vector<int> begins{0}, columns;
  std::vector<float> values;

  Sparse() {
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j <= i % 9; ++j) {
        columns.push_back((i * 31 + j * 57) % kRows);
        values.push_back(static_cast<float>(1 + j));
      }
      begins.push_back(static_cast<int>(columns.size()));
    }
  }
  std::vector<float> times(const std::vector<float>& x) const {
    std::vector<float> y(kRows);
    for (int i = 0; i < kRows; ++i) {
      for (int k = begins[i]; k < begins[i + 1]; ++k) y[i] += values[k] * x[columns[k]];
    }
    return y;
  }
};

bool check_vector(cusparseHandle_t sparse, cusparseSpMatDescr_t a, Array<float>* x,
                  const std::vector<float>& want) {
  const float one = 1, zero = 0;
  Array<float> y(kRows);
  cusparseDnVecDescr_t from, to;
  bool all = cusparseCreateDnVec(&from, kRows, x->get(), CUDA_R_32F) == 0 &&
             cusparseCreateDnVec(&to, kRows, y.get(), CUDA_R_32F) == 0;
  for (auto algorithm :
       {CUSPARSE_SPMV_ALG_DEFAULT, CUSPARSE_SPMV_CSR_ALG1, CUSPARSE_SPMV_CSR_ALG2}) {
    CHECKED(cudaMemset(y.get(), 0xff, kRows * sizeof(float)));
    size_t bytes = 0;
    bool good = cusparseSpMV_bufferSize(sparse, kPlain, &one, a, from, &zero, to, CUDA_R_32F,
                                        algorithm, &bytes) == 0;
    Array<char> room(std::max<size_t>(bytes, 1));
    good &= cusparseSpMV(sparse, kPlain, &one, a, from, &zero, to, CUDA_R_32F, algorithm,
                         room.get()) == 0;
    all &= report("SpMV", good && y.read() == want);
  }
  return all & (cusparseDestroyDnVec(from) == 0) & (cusparseDestroyDnVec(to) == 0);
}

bool check_columns(cusparseHandle_t sparse, cusparseSpMatDescr_t a, const std::vector<float>& x,
                   const std::vector<float>& column) {
  std::vector<float> many, want;
  for (int i = 0; i < kColumns; ++i) {
    many.insert(many.end(), x.begin(), x.end());
    want.insert(want.end(), column.begin(), column.end());
  }
  const float one = 1, zero = 0;
  Array<float> b(many), c(many.size());
  cusparseDnMatDescr_t from, to;
  bool good = cusparseCreateDnMat(&from, kRows, kColumns, kRows, b.get(), CUDA_R_32F,
                                  CUSPARSE_ORDER_COL) == 0 &&
              cusparseCreateDnMat(&to, kRows, kColumns, kRows, c.get(), CUDA_R_32F,
                                  CUSPARSE_ORDER_COL) == 0;
  size_t bytes = 0;
  good &= cusparseSpMM_bufferSize(sparse, kPlain, kPlain, &one, a, from, &zero, to, CUDA_R_32F,
                                  CUSPARSE_SPMM_ALG_DEFAULT, &bytes) == 0;
  Array<char> room(std::max<size_t>(bytes, 1));
  good &= cusparseSpMM(sparse, kPlain, kPlain, &one, a, from, &zero, to, CUDA_R_32F,
                       CUSPARSE_SPMM_ALG_DEFAULT, room.get()) == 0;
  good &= c.read() == want;
  good &= cusparseDestroyDnMat(from) == 0 && cusparseDestroyDnMat(to) == 0;
  return report("SpMM", good);
}

}  // namespace

int main() {
  const Sparse host;
  std::vector<float> x(kRows);
  for (int i = 0; i < kRows; ++i) x[i] = static_cast<float>(i % 17);
  const std::vector<float> want = host.times(x);
  Array<int> begins(host.begins), columns(host.columns);
  Array<float> values(host.values), device_x(x);
  cusparseHandle_t sparse = nullptr;
  cusparseSpMatDescr_t a = nullptr;
  bool good = report("create", cusparseCreate(&sparse) == CUSPARSE_STATUS_SUCCESS);
  if (good) {
    good &= cusparseCreateCsr(&a, kRows, kRows, static_cast<int64_t>(host.values.size()),
                              begins.get(), columns.get(), values.get(), CUSPARSE_INDEX_32I,
                              CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F) == 0;
    good &= check_vector(sparse, a, &device_x, want);
    good &= check_columns(sparse, a, x, want);
    good &= cusparseDestroySpMat(a) == 0 && cusparseDestroy(sparse) == 0;
  }
  return app::finish("cusparse", good);
}
