// cuGetProcAddress over the whole table of symbols; a symbol's "address" here is its name.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/proc_address.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vgpu::cudart {
namespace {

struct NamedRow {
  const char* base;
  int version;
  bool per_thread;
  const char* symbol;
};
constexpr NamedRow kNames[] = {
#include "symbol_names.inc"
};

constexpr cuuint64_t kPlain = CU_GET_PROC_ADDRESS_DEFAULT;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

std::vector<SymbolRow> all_served() {
  std::vector<SymbolRow> rows;
  for (const NamedRow& n : kNames) {
    rows.push_back({n.base, n.version, n.per_thread, const_cast<char*>(n.symbol)});
  }
  return rows;
}

// The symbol found, or "" for a miss that is reported as one.
std::string find(const std::vector<SymbolRow>& rows, const char* name, int version,
                 cuuint64_t flags = kPlain, CUdriverProcAddressQueryResult* status = nullptr) {
  void* address = &address;
  const CUresult result = get_proc_address(rows, name, &address, version, flags, status);
  EXPECT_EQ(result, address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS);
  return address == nullptr ? "" : static_cast<const char*>(address);
}

TEST(ProcAddress, EveryRowIsFoundAtItsOwnVersion) {
  const auto rows = all_served();
  ASSERT_EQ(rows.size(), 637u);
  for (const NamedRow& n : kNames) {
    EXPECT_EQ(find(rows, n.base, n.version, n.per_thread ? kPerThread : kPlain), n.symbol);
  }
}

TEST(ProcAddress, NewestThatIsNotNewerThanAsked) {
  const auto rows = all_served();
  EXPECT_EQ(find(rows, "cuCtxGetDevice", 12080), "cuCtxGetDevice");
  EXPECT_EQ(find(rows, "cuCtxGetDevice", 13000), "cuCtxGetDevice_v2");
  EXPECT_EQ(find(rows, "cuCtxGetDevice", 99000), "cuCtxGetDevice_v2");
  EXPECT_EQ(find(rows, "cuCtxSynchronize", 13000), "cuCtxSynchronize_v2");
  EXPECT_EQ(find(rows, "cuEventElapsedTime", 12080), "cuEventElapsedTime_v2");
  EXPECT_EQ(find(rows, "cuGraphInstantiate", 11000), "cuGraphInstantiate_v2");
  EXPECT_EQ(find(rows, "cuDeviceGetUuid", 9020), "cuDeviceGetUuid");
  EXPECT_EQ(find(rows, "cuDeviceGetUuid", 11040), "cuDeviceGetUuid_v2");
  EXPECT_EQ(find(rows, "cuDevicePrimaryCtxRelease", 7000), "cuDevicePrimaryCtxRelease");
  EXPECT_EQ(find(rows, "cuMemAlloc", 3020), "cuMemAlloc_v2");
  EXPECT_EQ(find(rows, "cuGetProcAddress", 11030), "cuGetProcAddress");
  EXPECT_EQ(find(rows, "cuGetProcAddress", 12000), "cuGetProcAddress_v2");
}

TEST(ProcAddress, PerThreadFormWhereThereIsOne) {
  const auto rows = all_served();
  EXPECT_EQ(find(rows, "cuMemcpyHtoD", 7000, kPerThread), "cuMemcpyHtoD_v2_ptds");
  EXPECT_EQ(find(rows, "cuStreamQuery", 7000, kPerThread), "cuStreamQuery_ptsz");
  EXPECT_EQ(find(rows, "cuStreamQuery", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), "cuStreamQuery");
  EXPECT_EQ(find(rows, "cuStreamQuery", 6000, kPerThread), "cuStreamQuery") << "older than it";
  EXPECT_EQ(find(rows, "cuInit", 13000, kPerThread), "cuInit");
}

TEST(ProcAddress, MissesSayWhy) {
  const auto rows = all_served();
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(find(rows, "", 0, kPlain, &status), "") << "what libcudart asks first";
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(find(rows, "cuNoSuchThing", 13000, kPlain, &status), "");
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(find(rows, "cuLibraryLoadData", 11080, kPlain, &status), "");
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  EXPECT_EQ(find(rows, "cuLibraryLoadData", 12000, kPlain, &status), "cuLibraryLoadData");
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SUCCESS);
}

TEST(ProcAddress, WhatIsNotServedIsAMiss) {
  auto rows = all_served();
  for (SymbolRow& row : rows) {
    const std::string symbol = row.address == nullptr ? "" : static_cast<char*>(row.address);
    if (symbol == "cuCtxGetDevice_v2" || symbol == "cuStreamQuery_ptsz") row.address = nullptr;
  }
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  EXPECT_EQ(find(rows, "cuCtxGetDevice", 13000, kPlain, &status), "")
      << "an older form has another signature and cannot stand in";
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  EXPECT_EQ(find(rows, "cuStreamQuery", 7000, kPerThread), "");
}

TEST(ProcAddress, BadArguments) {
  const auto rows = all_served();
  void* address = nullptr;
  EXPECT_EQ(get_proc_address(rows, nullptr, &address, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_proc_address(rows, "cuInit", nullptr, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_proc_address(rows, "cuInit", &address, 13000, 64, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace vgpu::cudart
