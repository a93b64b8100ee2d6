// Launches as CUDA 3 had them, which PyCUDA still makes its calls of.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

class LegacyLaunchTest : public KernelTest {
 protected:
  // The parameters of fill: where, how many, with what.
  void set(CUfunction fill, CUdeviceptr out, uint32_t n, uint32_t value) {
    EXPECT_OK(cuParamSetv(fill, 0, &out, sizeof(out)));
    EXPECT_OK(cuParamSeti(fill, 8, n));
    EXPECT_OK(cuParamSeti(fill, 12, value));
    EXPECT_OK(cuParamSetSize(fill, 16));
  }
};

TEST_F(LegacyLaunchTest, Launches) {
  const Words words(64);
  const CUfunction fill = function("fill");
  set(fill, words.at(), 64, 7);
  EXPECT_OK(cuFuncSetBlockShape(fill, 8, 1, 1));
  EXPECT_OK(cuFuncSetSharedSize(fill, 0));
  EXPECT_OK(cuLaunchGrid(fill, 8, 1));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(64, 7));
  // What was set stays; one block.
  EXPECT_OK(cuParamSeti(fill, 12, 9));
  EXPECT_OK(cuLaunch(fill));
  std::vector<uint32_t> expected(64, 7);
  std::fill_n(expected.begin(), 8, 9);
  EXPECT_EQ(words.read(), expected);
  EXPECT_OK(cuParamSetf(fill, 12, 1.0F));
  const Stream stream;
  EXPECT_OK(cuLaunchGridAsync(fill, 4, 2, stream));
  EXPECT_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(words.read()[0], 0x3f800000U);
}

// A launch has the parameters that were set when it was made.
TEST_F(LegacyLaunchTest, ParametersAreReadAtTheCall) {
  const Words words(8);
  const CUfunction fill = function("fill");
  const Stream stream;
  set(fill, words.at(), 8, 1);
  EXPECT_OK(cuFuncSetBlockShape(fill, 8, 1, 1));
  {
    Gate gate(function("gate"), stream);
    EXPECT_OK(cuLaunchGridAsync(fill, 1, 1, stream));
    EXPECT_OK(cuParamSeti(fill, 12, 2));
  }
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 1));
}

// A launch by cuLaunchKernel does not look at what was set, and changes none of it.
TEST_F(LegacyLaunchTest, BesideCuLaunchKernel) {
  const Words words(8);
  const CUfunction fill = function("fill");
  set(fill, words.at(), 8, 5);
  EXPECT_OK(cuFuncSetBlockShape(fill, 1, 1, 1));
  EXPECT_EQ(launch("fill", nullptr, words.at(), 8, 6), CUDA_SUCCESS);
  EXPECT_EQ(words.read(), std::vector<uint32_t>(8, 6));
  EXPECT_OK(cuLaunch(fill));
  EXPECT_EQ(words.read()[0], 5U);
  EXPECT_EQ(words.read()[1], 6U);
}

TEST_F(LegacyLaunchTest, Refusals) {
  const CUfunction fill = function("fill");
  const auto nobody = garbage_handle<CUfunction>();
  EXPECT_CU(cuFuncSetBlockShape(nobody, 1, 1, 1), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuLaunch(nobody), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CU(cuFuncSetBlockShape(fill, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuFuncSetBlockShape(fill, 1, -1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuParamSeti(fill, -4, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuParamSeti(fill, 1 << 20, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuParamSetSize(fill, 1 << 20), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuParamSetv(fill, 0, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  set(fill, 0, 0, 0);
  EXPECT_CU(cuLaunch(fill), CUDA_ERROR_INVALID_VALUE);  // of no shape
  EXPECT_OK(cuFuncSetBlockShape(fill, 8, 1, 1));
  EXPECT_CU(cuLaunchGrid(fill, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_CU(cuLaunch(fill), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_OK(cuCtxSetCurrent(context_));
}

}  // namespace
}  // namespace vgpu::conformance
