// Values per context: which error means what decides how libcudart goes on.
// SPDX-License-Identifier: Apache-2.0
#include "api/cudart/context_storage.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/unit/api/fake_host.h"

namespace vgpu::cudart {
namespace {

class ContextStorage : public testing::Test {
 protected:
  void TearDown() override {
    for (uintptr_t c = 1; c < 4; ++c) run_context_destructors(test::context(c));
  }
  CUresult get(CUcontext context, void* key) { return storage_get(&value_, context, key); }

  test::FakeHost& host_ = test::FakeHost::install();
  void* value_ = nullptr;
  int key_ = 0, other_key_ = 0, first_ = 0, second_ = 0;
};

TEST_F(ContextStorage, NoContextIsNotNoEntry) {
  EXPECT_EQ(get(nullptr, &key_), CUDA_ERROR_INVALID_CONTEXT);
  host_.current = test::context(1);
  EXPECT_EQ(get(nullptr, &key_), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(storage_put(nullptr, &key_, &first_, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(get(nullptr, &key_), CUDA_SUCCESS);
  EXPECT_EQ(value_, &first_);
  EXPECT_EQ(get(reinterpret_cast<CUcontext>(-1), &key_), CUDA_SUCCESS) << "-1 means current too";
  EXPECT_EQ(get(nullptr, &other_key_), CUDA_ERROR_INVALID_HANDLE);
  host_.current = test::context(2);
  EXPECT_EQ(get(nullptr, &key_), CUDA_ERROR_INVALID_HANDLE) << "another context";
  EXPECT_EQ(get(test::context(1), &key_), CUDA_SUCCESS);
}

TEST_F(ContextStorage, LastValueCounts) {
  storage_put(test::context(1), &key_, &first_, nullptr);
  EXPECT_EQ(get(test::context(1), &key_), CUDA_SUCCESS);
  storage_put(test::context(1), &key_, &second_, nullptr);
  EXPECT_EQ(get(test::context(1), &key_), CUDA_SUCCESS);
  EXPECT_EQ(value_, &second_);
  EXPECT_EQ(storage_remove(test::context(1), &key_), CUDA_SUCCESS);
  EXPECT_EQ(get(test::context(1), &key_), CUDA_ERROR_INVALID_HANDLE) << "not from memory";
}

std::vector<std::pair<CUcontext, void*>> destroyed;

TEST_F(ContextStorage, DestructorsRunOnceAndNewestFirst) {
  destroyed.clear();
  const StorageDestructor note = [](CUcontext c, void*, void* value) {
    destroyed.emplace_back(c, value);
    // A destructor may come back here; the lock is not held.
    storage_put(test::context(2), value, value, nullptr);
  };
  storage_put(test::context(1), &key_, &first_, note);
  storage_put(test::context(1), &other_key_, &second_, note);
  storage_put(test::context(3), &key_, &first_, nullptr);
  run_context_destructors(test::context(1));
  ASSERT_EQ(destroyed.size(), 2u);
  EXPECT_EQ(destroyed[0], std::pair(test::context(1), static_cast<void*>(&second_)));
  EXPECT_EQ(destroyed[1], std::pair(test::context(1), static_cast<void*>(&first_)));
  EXPECT_EQ(get(test::context(1), &key_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(get(test::context(3), &key_), CUDA_SUCCESS) << "others keep theirs";
  run_context_destructors(test::context(1));
  EXPECT_EQ(destroyed.size(), 2u);
}

TEST_F(ContextStorage, ThreadsSeeEachOthersChanges) {
  storage_put(test::context(1), &key_, &first_, nullptr);
  for (int round = 0; round < 200; ++round) {
    ASSERT_EQ(get(test::context(1), &key_), CUDA_SUCCESS);
    void* next = round % 2 == 0 ? &second_ : &first_;
    std::thread([&] { storage_put(test::context(1), &key_, next, nullptr); }).join();
    ASSERT_EQ(get(test::context(1), &key_), CUDA_SUCCESS);
    ASSERT_EQ(value_, next);
  }
}

}  // namespace
}  // namespace vgpu::cudart
