// The private tables: stable, without holes, and their measured slots.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/export_table.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/api/fake_host.h"

namespace vgpu::cudart {
namespace {

CUuuid uuid(const std::string& hex) {
  CUuuid id;
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    id.bytes[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

const void* const* table(const std::string& hex) {
  const CUuuid id = uuid(hex);
  const void* found = nullptr;
  EXPECT_EQ(get_export_table(&found, &id), CUDA_SUCCESS) << hex;
  const void* again = nullptr;
  get_export_table(&again, &id);
  EXPECT_EQ(again, found) << "tables have fixed addresses";
  return static_cast<const void* const*>(found);
}

template <typename F>
F slot(const void* const* words, int index) {
  return reinterpret_cast<F>(const_cast<void*>(words[index]));
}

const std::string kRuntimeInterface = "6bd5fb6c5bf4e74a8987d93912fd9df9";
const std::string kToolsCallbacks = "a094798c2e742e7493f20800200c0a66";
const std::string kToolsThread = "42d85a8123f6cb478298f6e78a3aecdc";
const std::string kContextStorage = "c693336e1121df11a8c368f355d89593";
const std::string kContextChecks = "263e88607cd2614392f6bbd5006dfa7e";
const std::string kIntegrity = "d4082055bde6704b8d34ba123c66e1f2";
const std::string kToolsContext = "21318c60971432488ca641ff7324c8f2";
const std::string kToolsModule = "6e163fbeb958444d835ce182aff1991e";
const std::string kMatmul = "1734dc26800d47458726c0f1e7dd8bca";

class ExportTable : public testing::Test {
 protected:
  test::FakeHost& host_ = test::FakeHost::install();
};

TEST_F(ExportTable, EveryWordCanBeCalled) {
  for (const auto& [id, words] : {std::pair{kRuntimeInterface, 13},
                                  {kToolsCallbacks, 7},
                                  {kToolsThread, 4},
                                  {kContextChecks, 4},
                                  {kIntegrity, 3},
                                  {kToolsContext, 95},
                                  {kToolsModule, 64},
                                  {kMatmul, 5}}) {
    const void* const* t = table(id);
    ASSERT_NE(t, nullptr);
    const size_t bytes = reinterpret_cast<uintptr_t>(t[0]);
    EXPECT_GE(bytes, words * sizeof(void*)) << id;
    for (size_t i = 1; i < bytes / sizeof(void*); ++i) EXPECT_NE(t[i], nullptr) << id << " " << i;
  }
}

TEST_F(ExportTable, SlotsThatNobodyKnowsRefuse) {
  using Any = CUresult (*)(void*, void*, void*, void*);
  EXPECT_EQ(slot<Any>(table(kRuntimeInterface), 5)(nullptr, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(slot<Any>(table(kMatmul), 4)(nullptr, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(ExportTable, UnknownIdsAreRefusedWithNothing) {
  for (const char* id : {"f8cff95121468b4eb9e2fb469e7c0dd9", "00000000000000000000000000000000"}) {
    const CUuuid unknown = uuid(id);
    const void* found = &unknown;
    EXPECT_NE(get_export_table(&found, &unknown), CUDA_SUCCESS);
    EXPECT_EQ(found, nullptr);
  }
  const CUuuid id = uuid(kIntegrity);
  const void* found = nullptr;
  EXPECT_EQ(get_export_table(nullptr, &id), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(get_export_table(&found, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExportTable, RuntimeInterfaceGivesThePrimaryContext) {
  CUcontext primary = nullptr;
  auto get = slot<CUresult (*)(CUcontext*, CUdevice)>(table(kRuntimeInterface), 2);
  EXPECT_EQ(get(&primary, 0), CUDA_SUCCESS);
  EXPECT_EQ(primary, test::context(0x1000));
  EXPECT_EQ(get(&primary, 9), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(host_.current, nullptr) << "nothing becomes current";
}

TEST_F(ExportTable, RuntimeInterfaceLoadsCode) {
  const void* const* t = table(kRuntimeInterface);
  int image = 0;
  const auto expected = reinterpret_cast<CUmodule>(&image);
  CUmodule module = nullptr;
  auto plain = slot<CUresult (*)(CUmodule*, const void*)>(t, 1);
  EXPECT_EQ(plain(&module, &image), CUDA_SUCCESS);
  EXPECT_EQ(module, expected);
  EXPECT_EQ(plain(nullptr, &image), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(plain(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  module = nullptr;
  auto with = slot<CUresult (*)(CUmodule*, const void*, void*, void*, uint32_t)>(t, 6);
  EXPECT_EQ(with(&module, &image, nullptr, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(module, expected);
  module = nullptr;
  auto container = slot<CUresult (*)(const void*, CUmodule*, void*, void*, uint32_t)>(t, 8);
  EXPECT_EQ(container(&image, &module, nullptr, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(module, expected);
  EXPECT_EQ(slot<CUresult (*)(size_t)>(t, 7)(16), CUDA_SUCCESS);
  EXPECT_EQ(slot<CUresult (*)()>(t, 12)(), CUDA_SUCCESS);
}

TEST_F(ExportTable, NoToolIsAttached) {
  for (const auto& [index, expected] : {std::pair{2, 1024u}, {6, 14u}}) {
    uint32_t* flags = nullptr;
    size_t count = 0;
    slot<void (*)(void**, size_t*)>(table(kToolsCallbacks), index)(reinterpret_cast<void**>(&flags),
                                                                   &count);
    ASSERT_EQ(count, expected);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(flags[i], 0u);
  }
}

TEST_F(ExportTable, ToolsTellStreamsApart) {
  auto which = slot<CUresult (*)(CUcontext, CUstream, const void**)>(table(kToolsContext), 51);
  auto number = slot<CUresult (*)(CUcontext, const void*, uint64_t*)>(table(kToolsContext), 39);
  const auto id = [&](CUstream stream) {
    const void* identity = nullptr;
    uint64_t value = 0;
    EXPECT_EQ(which(nullptr, stream, &identity), CUDA_SUCCESS);
    EXPECT_EQ(number(nullptr, identity, &value), CUDA_SUCCESS);
    return value;
  };
  EXPECT_EQ(id(nullptr), id(CU_STREAM_LEGACY));
  EXPECT_NE(id(nullptr), id(CU_STREAM_PER_THREAD));
  EXPECT_NE(id(nullptr), id(reinterpret_cast<CUstream>(0x1234)));
  EXPECT_EQ(which(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(number(nullptr, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ExportTable, ToolsSeeContextAndKernels) {
  host_.current = test::context(0x42);
  CUcontext current = nullptr;
  EXPECT_EQ(slot<CUresult (*)(CUcontext*)>(table(kToolsThread), 2)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, host_.current);
  uint64_t id = 0;
  EXPECT_EQ(slot<CUresult (*)(CUcontext, uint64_t*)>(table(kToolsContext), 4)(current, &id),
            CUDA_SUCCESS);
  EXPECT_EQ(id, 0x43u);
  using Visit = void (*)(void*, CUfunction, uint64_t);
  CUfunction seen = nullptr;
  const Visit visit = [](void* user, CUfunction f, uint64_t) {
    *static_cast<CUfunction*>(user) = f;
  };
  auto each = slot<uint64_t (*)(CUcontext, CUmodule, Visit, void*)>(table(kToolsModule), 7);
  EXPECT_EQ(each(current, nullptr, visit, &seen), 1u);
  EXPECT_EQ(seen, reinterpret_cast<CUfunction>(0x77));
}

TEST_F(ExportTable, ContextChecksFindNothing) {
  uint32_t flags = 9;
  const void* detail = &flags;
  auto check = slot<CUresult (*)(CUcontext, uint32_t*, const void**)>(table(kContextChecks), 2);
  EXPECT_EQ(check(nullptr, &flags, &detail), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(slot<uint32_t (*)()>(table(kContextChecks), 3)(), 0u);
}

TEST_F(ExportTable, IntegrityFollowsTheHost) {
  auto check = slot<CUresult (*)(uint32_t, uint64_t, uint64_t*)>(table(kIntegrity), 1);
  uint64_t first[2] = {}, second[2] = {};
#if VGPU_CUDART_VALIDITY
  ASSERT_EQ(check(13002, 5, first), CUDA_SUCCESS);
  host_.bus = 9;
  ASSERT_EQ(check(13002, 5, second), CUDA_SUCCESS);
  EXPECT_NE(first[0], second[0]);
#else
  EXPECT_EQ(check(13002, 5, first), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(first[0], second[0]);
#endif
}

TEST_F(ExportTable, ContextStorageHasNoSizeWordAndAnEnd) {
  const void* const* t = table(kContextStorage);
  for (int i = 0; i < 3; ++i) EXPECT_NE(t[i], nullptr);
  EXPECT_EQ(t[3], nullptr);
}

}  // namespace
}  // namespace vgpu::cudart
