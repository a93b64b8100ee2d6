// The stack of current contexts, and what becomes of destroyed ones.
// SPDX-License-Identifier: Apache-2.0
#include "shim/context.h"

#include <gtest/gtest.h>

#include <thread>

namespace vgpu::shim {
namespace {

class ContextTest : public testing::Test {
 protected:
  void TearDown() override {
    while (pop_current_context() != nullptr) {
    }
  }
  ContextTable table_;
};

TEST_F(ContextTest, SetReplacesTheTopAndNullPopsIt) {
  Context* a = table_.add_created(0, 0);
  Context* b = table_.add_created(0, 0);
  EXPECT_EQ(current_context(), nullptr);
  push_current_context(a);
  push_current_context(b);
  set_current_context(a);
  EXPECT_EQ(current_context(), a);
  set_current_context(nullptr);
  EXPECT_EQ(current_context(), a);
  set_current_context(b);
  EXPECT_EQ(pop_current_context(), b);
  EXPECT_EQ(pop_current_context(), nullptr);
  set_current_context(nullptr);
  EXPECT_EQ(current_context(), nullptr);
}

TEST_F(ContextTest, EveryThreadHasItsOwnStack) {
  Context* a = table_.add_created(0, 0);
  push_current_context(a);
  std::thread([&] {
    EXPECT_EQ(current_context(), nullptr);
    push_current_context(a);
    EXPECT_EQ(current_context(), a);
  }).join();
  EXPECT_EQ(current_context(), a);
}

TEST_F(ContextTest, HandlesThatWereNeverContextsAreNotFound) {
  Context* a = table_.add_created(0, 0);
  EXPECT_EQ(table_.find(a->handle()), a);
  for (const uint64_t garbage :
       {uint64_t{0}, uint64_t{1}, ~uint64_t{0}, a->id + 16, a->id ^ (uint64_t{1} << 40)}) {
    EXPECT_EQ(table_.find(handle_of<CUcontext>(garbage)), nullptr) << garbage;
  }
}

TEST_F(ContextTest, SlotsAreBoundedAndComeBack) {
  ASSERT_NE(table_.add_primary(0), nullptr);
  Context* last = nullptr;
  for (uint32_t i = 1; i < kContextSlots; ++i) {
    last = table_.add_created(0, 0);
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(last->slot, i);
  }
  EXPECT_EQ(table_.add_created(0, 0), nullptr);
  table_.release_slot(last);
  Context* again = table_.add_created(0, 0);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->slot, last->slot);
  EXPECT_NE(again->id, last->id);
  EXPECT_EQ(table_.find(last->handle()), last);  // still known, as destroyed
}

TEST_F(ContextTest, OnlyTheTopIsDropped) {
  Context* a = table_.add_created(0, 0);
  Context* b = table_.add_created(0, 0);
  push_current_context(a);
  push_current_context(b);
  drop_current_context(a);
  EXPECT_EQ(current_context(), b);
  drop_current_context(b);
  EXPECT_EQ(current_context(), a);
}

}  // namespace
}  // namespace vgpu::shim
