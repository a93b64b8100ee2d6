// Stale, foreign and invented ids find nothing.
// SPDX-License-Identifier: Apache-2.0
#include "server/handles.h"

#include <gtest/gtest.h>

#include <random>

#include "base/slot_map.h"

namespace vgpu::server {
namespace {

TEST(Handles, OnlyTheWholeIdCounts) {
  HandleTable<int> table;
  const uint64_t id = SlotId::make(2, 5, 77);
  ASSERT_NE(table.insert(id, std::make_unique<int>(42)), nullptr);
  ASSERT_NE(table.find(id), nullptr);
  EXPECT_EQ(*table.find(id), 42);
  EXPECT_EQ(table.find(SlotId::make(3, 5, 77)), nullptr) << "another type";
  EXPECT_EQ(table.find(SlotId::make(2, 4, 77)), nullptr) << "an earlier generation";
  EXPECT_EQ(table.find(SlotId::make(2, 5, 78)), nullptr) << "another index";
  EXPECT_EQ(table.find(id | 1), nullptr);
  EXPECT_EQ(table.insert(id, std::make_unique<int>(1)), nullptr) << "minted twice";
  EXPECT_NE(table.take(id), nullptr);
  EXPECT_EQ(table.find(id), nullptr);
  EXPECT_EQ(table.take(id), nullptr);
  EXPECT_NE(table.insert(SlotId::make(2, 6, 77), std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

TEST(Handles, TheLimitHolds) {
  HandleTable<int> table;
  EXPECT_EQ(table.insert(SlotId::make(2, 1, kHandlesMax), std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(table.insert(0, std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(table.insert(1, std::make_unique<int>(1)), nullptr) << "the legacy stream's number";
}

TEST(Handles, TablesHaveABoundOfTheirOwnAndOneTogether) {
  HandleBudget budget;
  budget.max = 3;
  HandleTable<int> small, other;
  small.bound(2, &budget);
  other.bound(kHandlesMax, &budget);
  const auto id = [](uint64_t index) { return SlotId::make(2, 1, index); };
  EXPECT_NE(small.insert(id(0), std::make_unique<int>(1)), nullptr);
  EXPECT_NE(small.insert(id(1), std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(small.insert(id(2), std::make_unique<int>(1)), nullptr) << "its own bound";
  EXPECT_NE(other.insert(id(0), std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(other.insert(id(1), std::make_unique<int>(1)), nullptr) << "that of both";
  EXPECT_NE(small.take(id(0)), nullptr);
  EXPECT_NE(other.insert(id(1), std::make_unique<int>(1)), nullptr);
  EXPECT_EQ(budget.used, 3u);
}

TEST(Handles, RandomNumbersFindNothing) {
  HandleTable<int> table;
  for (uint64_t i = 0; i < 1000; ++i) table.insert(SlotId::make(2, 1, i), std::make_unique<int>(1));
  std::mt19937_64 random(11);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t id = random();
    if (SlotId::tag(id) == 2 && SlotId::generation(id) == 1) continue;
    ASSERT_EQ(table.find(id), nullptr);
  }
}

}  // namespace
}  // namespace vgpu::server
