// cuGetProcAddress: by name, version and kind of default stream.
// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

namespace vgpu::conformance {
namespace {

struct Answer {
  CUresult result;
  void* function;
  CUdriverProcAddressQueryResult status;
};

Answer ask(const char* name, int version, cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT) {
  Answer answer = {CUDA_SUCCESS, nullptr, CU_GET_PROC_ADDRESS_SUCCESS};
  answer.result =
      driver().cuGetProcAddress_v2(name, &answer.function, version, flags, &answer.status);
  return answer;
}

TEST(ProcAddressTest, FindsWhatIsThere) {
  const Answer found = ask("cuDriverGetVersion", 12000);
  ASSERT_EQ(found.result, CUDA_SUCCESS);
  EXPECT_EQ(found.status, CU_GET_PROC_ADDRESS_SUCCESS);
  int version = 0;
  EXPECT_EQ(reinterpret_cast<decltype(&::cuDriverGetVersion)>(found.function)(&version),
            CUDA_SUCCESS);
  EXPECT_GE(version, 11080);
}

TEST(ProcAddressTest, UnknownNames) {
  for (const char* name : {"cuNothing", "", "malloc", "cuMemAlloc_v9"}) {
    const Answer answer = ask(name, 12000);
    EXPECT_EQ(answer.function, nullptr) << name;
    EXPECT_EQ(answer.result, CUDA_ERROR_NOT_FOUND) << name;
    EXPECT_EQ(answer.status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) << name;
  }
}

TEST(ProcAddressTest, VersionsChoose) {
  const Answer late = ask("cuStreamGetId", 12000);
  EXPECT_EQ(late.result, CUDA_SUCCESS);
  const Answer early = ask("cuStreamGetId", 11000);
  EXPECT_EQ(early.function, nullptr);
  EXPECT_EQ(early.status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
}

TEST(ProcAddressTest, PerThreadDefaultStream) {
  const Answer legacy = ask("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  const Answer own = ask("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  ASSERT_EQ(legacy.result, CUDA_SUCCESS);
  ASSERT_EQ(own.result, CUDA_SUCCESS);
  EXPECT_NE(legacy.function, own.function);
}

TEST(ProcAddressTest, BadArguments) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status;
  EXPECT_CU(cuGetProcAddress_v2(nullptr, &function, 12000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGetProcAddress_v2("cuInit", nullptr, 12000, 0, &status), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cuGetProcAddress_v2("cuInit", &function, 12000, 1024, &status),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_OK(cuGetProcAddress_v2("cuInit", &function, 12000, 0, nullptr));
}

TEST(ProcAddressTest, UnknownExportTable) {
  const CUuuid unknown = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
  const void* table = &unknown;
  EXPECT_NE(driver().cuGetExportTable(&table, &unknown), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vgpu::conformance
