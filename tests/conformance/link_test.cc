// The driver's linker: inputs of every form, what is refused, handles that are none.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <fstream>
#include <numeric>

#include "fixture.h"
#include "tests/support/image_builder.h"

namespace vgpu::conformance {
namespace {

using ::testing::HasSubstr;

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

// What runs in one input calls what stands in another, in every form that inputs have.
constexpr const char* kCaller = R"(
.extern .func (.param .b32 r) offset(.param .b32 x);
.visible .entry run(.param .u64 data)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd0, [data];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  { .param .b32 a; .param .b32 b;
    st.param.b32 [a], %r0;
    call (b), offset, (a);
    ld.param.b32 %r1, [b]; }
  st.global.u32 [%rd2], %r1;
  ret;
}
)";
constexpr const char* kCallee = R"(
.visible .func (.param .b32 r) offset(.param .b32 x)
{
  .reg .b32 %r<2>;
  ld.param.b32 %r0, [x];
  add.u32 %r0, %r0, 100;
  st.param.b32 [r], %r0;
  ret;
}
)";

TEST_F(LinkTest, InputsOfEveryForm) {
  const std::string callee = ptx_module(kCallee);
  const std::string container =
      cudart::test::ContainerBuilder().add(cudart::test::kPtxEntry, 70, 0, callee + '\0').build();
  const std::string archive = "!<arch>\nmember/         0           0     0     644     " +
                              std::to_string(container.size()) + "       `\n" + container;
  const struct {
    CUjitInputType type;
    const std::string& bytes;
  } kForms[] = {{CU_JIT_INPUT_PTX, callee},
                {CU_JIT_INPUT_FATBINARY, container},
                {CU_JIT_INPUT_LIBRARY, archive}};
  for (const auto& form : kForms) {
    CUlinkState state = nullptr;
    ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
    ASSERT_EQ(add(state, ptx_module(kCaller)), CUDA_SUCCESS);
    std::string bytes = form.bytes;
    EXPECT_OK(cuLinkAddData_v2(state, form.type, bytes.data(), bytes.size(), "input", 0, nullptr,
                               nullptr));
    void* image = nullptr;
    size_t size = 0;
    ASSERT_OK(cuLinkComplete(state, &image, &size));
    EXPECT_GT(size, 0U);
    CUmodule module = nullptr;
    CUfunction run = nullptr;
    ASSERT_OK(cuModuleLoadData(&module, image));
    EXPECT_OK(cuLinkDestroy(state));
    ASSERT_OK(cuModuleGetFunction(&run, module, "run"));
    const Words words(32);
    CUdeviceptr data = words.at();
    void* params[] = {&data};
    EXPECT_OK(cuLaunchKernel(run, 1, 1, 1, 32, 1, 1, 0, nullptr, params, nullptr));
    std::vector<uint32_t> want(32);
    std::iota(want.begin(), want.end(), 100);
    EXPECT_EQ(words.read(), want);
    EXPECT_OK(cuModuleUnload(module));
  }
}

TEST_F(LinkTest, FilesAreInputsToo) {
  const std::string path = temporary_path("callee.ptx");
  std::ofstream(path) << ptx_module(kCallee);
  CUlinkState state = nullptr;
  ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
  EXPECT_OK(cuLinkAddFile_v2(state, CU_JIT_INPUT_PTX, path.c_str(), 0, nullptr, nullptr));
  ASSERT_EQ(add(state, ptx_module(kCaller)), CUDA_SUCCESS);
  void* image = nullptr;
  EXPECT_OK(cuLinkComplete(state, &image, nullptr));
  EXPECT_OK(cuLinkDestroy(state));
  (void)::unlink(path.c_str());
}

// More than one piece of what was linked, on its way back.
TEST_F(LinkTest, LargeImages) {
  CUlinkState state = nullptr;
  ASSERT_OK(cuLinkCreate_v2(0, nullptr, nullptr, &state));
  for (int i = 0; i < 3; ++i) {
    std::string text = ptx_module(".visible .entry large" + std::to_string(i) + "() { ret; }\n");
    text += std::string(400'000, '\n');
    ASSERT_EQ(add(state, text), CUDA_SUCCESS);
  }
  void* image = nullptr;
  size_t bytes = 0;
  ASSERT_OK(cuLinkComplete(state, &image, &bytes));
  CUmodule module = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, image));
  CUfunction found = nullptr;
  for (const char* name : {"large0", "large1", "large2"})
    EXPECT_OK(cuModuleGetFunction(&found, module, name));
  EXPECT_OK(cuModuleUnload(module));
  EXPECT_OK(cuLinkDestroy(state));
}

TEST_F(LinkTest, LogsSayWhatIsWrong) {
  const auto link = [&](const std::string& first, const std::string& second, CUresult want) {
    char log[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUlinkState state = nullptr;
    void* image = nullptr;
    EXPECT_OK(cuLinkCreate_v2(2, options, values, &state));
    CUresult result = add(state, first);
    if (result == CUDA_SUCCESS) result = add(state, second);
    if (result == CUDA_SUCCESS) result = driver().cuLinkComplete(state, &image, nullptr);
    EXPECT_EQ(result, want);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(values[1]), std::strlen(log) + 1);
    EXPECT_OK(cuLinkDestroy(state));
    return std::string(log);
  };
  const std::string other = ptx_module(".visible .entry other() { ret; }\n");
  EXPECT_THAT(link(ptx_module(kCaller), other, CUDA_ERROR_UNKNOWN), HasSubstr("offset"));
  EXPECT_THAT(link(ptx_module(kCallee), ptx_module(kCallee), CUDA_ERROR_UNKNOWN),
              HasSubstr("offset"));
  EXPECT_THAT(link(other, ptx_module("\n %frob;\n"), CUDA_ERROR_INVALID_PTX), HasSubstr("line"));
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
