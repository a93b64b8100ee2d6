// The driver's linker: one input, what is refused, handles that are none.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

using ::testing::AnyOf;

class LinkTest : public ContextTest {
 protected:
  CUresult add(CUlinkState state, std::string text) {
    return driver().cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "text",
                                     0, nullptr, nullptr);
  }
};

TEST_F(LinkTest, OneTextBecomesAModule) {
  char log[1024] = "";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUlinkState state = nullptr;
  ASSERT_OK(cuLinkCreate_v2(2, options, values, &state));
  ASSERT_EQ(add(state, fill_module(5)), CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_OK(cuLinkComplete(state, &image, &bytes));
  EXPECT_GT(bytes, 0U);
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image));
  EXPECT_OK(cuLinkDestroy(state));
  ASSERT_OK(cuModuleGetFunction(&fill, module, "fill"));
  const Words words(64);
  CUdeviceptr data = words.at();
  uint32_t n = 64, value = 10;
  void* params[] = {&data, &n, &value};
  EXPECT_OK(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(64, 15));
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(LinkTest, BadInputs) {
  CUlinkState state = nullptr;
  ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
  EXPECT_EQ(add(state, "this is no text of a module"), CUDA_ERROR_INVALID_PTX);
  char text[] = "x";
  EXPECT_CU(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, nullptr, 4, "none", 0, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, text, 2, "none", 1, nullptr, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLinkAddFile_v2(state, CU_JIT_INPUT_PTX, "/nowhere/at.all", 0, nullptr, nullptr),
            CUDA_ERROR_FILE_NOT_FOUND);
  EXPECT_OK(cuLinkDestroy(state));
  EXPECT_CU(cuLinkCreate_v2(0, nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuLinkCreate_v2(1, nullptr, nullptr, &state), CUDA_ERROR_INVALID_VALUE);
}

// Guests link one input; the software GPU itself, and NVIDIA's driver, any number.
TEST_F(LinkTest, TwoTexts) {
  CUlinkState state = nullptr;
  ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
  ASSERT_EQ(add(state, fill_module(1)), CUDA_SUCCESS);
  EXPECT_THAT(add(state, ptx_module(".visible .entry other() { ret; }\n")),
              AnyOf(CUDA_SUCCESS, CUDA_ERROR_NOT_SUPPORTED));
  void* image = nullptr;
  EXPECT_OK(cuLinkComplete(state, &image, nullptr));
  EXPECT_OK(cuLinkDestroy(state));
}

TEST_F(LinkTest, BadHandles) {
  CUlinkState stale = nullptr;
  ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &stale));
  void* image = nullptr;
  EXPECT_NE(driver().cuLinkComplete(stale, &image, nullptr), CUDA_SUCCESS);  // nothing in it
  ASSERT_OK(cuLinkDestroy(stale));
  for (CUlinkState wrong : {stale, garbage_handle<CUlinkState>()}) {
    EXPECT_EQ(add(wrong, fill_module(1)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuLinkComplete(wrong, &image, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CU(cuLinkDestroy(wrong), CUDA_ERROR_INVALID_HANDLE);
  }
}

}  // namespace
}  // namespace vgpu::conformance
