// Names and descriptions of results.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "fixture.h"

namespace vgpu::conformance {
namespace {

TEST(ErrorTest, Names) {
  const std::pair<CUresult, const char*> known[] = {
      {CUDA_SUCCESS, "CUDA_SUCCESS"},
      {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
      {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
      {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
      {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
      {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
      {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"}};
  for (const auto& [result, expected] : known) {
    const char* name = nullptr;
    const char* text = nullptr;
    ASSERT_OK(cuGetErrorName(result, &name));
    EXPECT_STREQ(name, expected);
    ASSERT_OK(cuGetErrorString(result, &text));
    EXPECT_GT(std::string(text).size(), 4U);
  }
}

TEST(ErrorTest, UnknownNumbers) {
  for (int number : {-1, 12345, 1 << 30}) {
    const char* name = "left over";
    const char* text = "left over";
    EXPECT_CU(cuGetErrorName(static_cast<CUresult>(number), &name), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(name, nullptr);
    EXPECT_CU(cuGetErrorString(static_cast<CUresult>(number), &text), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(text, nullptr);
  }
}

TEST(ErrorTest, NullPointers) {
  EXPECT_CU(cuGetErrorName(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGetErrorString(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vgpu::conformance
