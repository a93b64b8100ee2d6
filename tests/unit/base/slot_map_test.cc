// Minted ids: unique, never a reserved value, and nothing else finds an object.
// SPDX-License-Identifier: Apache-2.0
#include "base/slot_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace vgpu {
namespace {

constexpr uint64_t kTag = 3;
using Map = SlotMap<std::string, kTag>;

TEST(SlotMapTest, FindsWhatItMinted) {
  Map map;
  const uint64_t a = map.insert("a");
  const uint64_t b = map.insert("b");
  EXPECT_NE(a, b);
  ASSERT_NE(map.find(a), nullptr);
  EXPECT_EQ(*map.find(a), "a");
  EXPECT_EQ(*map.find(b), "b");
  EXPECT_EQ(map.size(), 2U);
}

TEST(SlotMapTest, IdsAvoidReservedValuesAndKeepLowBitsFree) {
  Map map;
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t id = map.insert("x");
    EXPECT_TRUE(seen.insert(id).second);
    EXPECT_GT(id, uint64_t{1} << 32);
    EXPECT_EQ(id & 15, 0U);
    EXPECT_EQ(id >> 63, 0U);
  }
}

TEST(SlotMapTest, StaleIdsStayStale) {
  Map map;
  const uint64_t old_id = map.insert("old");
  ASSERT_TRUE(map.remove(old_id));
  EXPECT_FALSE(map.remove(old_id));
  const uint64_t new_id = map.insert("new");
  EXPECT_EQ(SlotId::index(new_id), SlotId::index(old_id));
  EXPECT_NE(new_id, old_id);
  EXPECT_EQ(map.find(old_id), nullptr);
  EXPECT_EQ(*map.find(new_id), "new");
}

TEST(SlotMapTest, InventedIdsFindNothing) {
  Map map;
  SlotMap<int, kTag + 1> other;
  const uint64_t id = map.insert("x");
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{1}, uint64_t{2}, ~uint64_t{0}, id + 1, id + 16,
                               id | uint64_t{1} << 63, other.insert(1)}) {
    EXPECT_EQ(map.find(wrong), nullptr) << wrong;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t guess = random();
    EXPECT_EQ(map.find(guess) != nullptr, guess == id);
  }
}

TEST(SlotMapTest, ObjectsEndWhenRemovedOrCleared) {
  auto counter = std::make_shared<int>(0);
  {
    SlotMap<std::shared_ptr<int>, kTag> map;
    const uint64_t id = map.insert(counter);
    map.insert(counter);
    EXPECT_EQ(counter.use_count(), 3);
    map.remove(id);
    EXPECT_EQ(counter.use_count(), 2);
  }
  EXPECT_EQ(counter.use_count(), 1);
}

TEST(SlotMapTest, ForEachVisitsWhatIsThere) {
  Map map;
  const uint64_t a = map.insert("a");
  map.insert("b");
  map.remove(a);
  map.insert("c");
  std::multiset<std::string> seen;
  map.for_each([&](uint64_t id, std::string& value) {
    EXPECT_EQ(map.find(id), &value);
    seen.insert(value);
  });
  EXPECT_EQ(seen, (std::multiset<std::string>{"b", "c"}));
}

TEST(SlotMapTest, LimitGivesZero) {
  SlotMap<char, 1> map;
  for (uint64_t i = 0; i < SlotMap<char, 1>::kSlotsMax; ++i) ASSERT_NE(map.insert('x'), 0U);
  EXPECT_EQ(map.insert('x'), 0U);
}

TEST(SlotMapTest, FindRunsBesideInsert) {
  SlotMap<uint64_t, 5> map;
  std::atomic<uint64_t> newest{0};
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t id = newest.load(std::memory_order_acquire);
      if (id == 0) continue;
      const uint64_t* value = map.find(id);
      ASSERT_NE(value, nullptr);
      ASSERT_EQ(*value, SlotId::index(id) * 3);
    }
  });
  for (uint64_t i = 0; i < 20000; ++i) {
    newest.store(map.insert(i * 3), std::memory_order_release);
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
}

struct Lasting {
  std::atomic<uint64_t> twice{0}, thrice{0};
  void renew(uint64_t value) {
    twice.store(2 * value, std::memory_order_release);
    thrice.store(3 * value, std::memory_order_release);
  }
};
using LastingMap = SlotMap<Lasting, 6, Removed::kStays>;

TEST(SlotMapTest, WhatStaysIsRenewed) {
  LastingMap map;
  const uint64_t first = map.insert(uint64_t{1});
  const Lasting* found = map.find(first);
  ASSERT_TRUE(map.remove(first));
  EXPECT_EQ(found->twice, 2U);  // still there
  const uint64_t second = map.insert(uint64_t{5});
  EXPECT_EQ(map.find(first), nullptr);
  EXPECT_EQ(map.find(second), found);
  EXPECT_EQ(found->thrice, 15U);
}

// What was read of an object is of its id when that is still found afterwards.
TEST(SlotMapTest, WhatStaysIsReadBesideARenewal) {
  LastingMap map;
  std::atomic<uint64_t> newest{0};
  std::atomic<bool> stop{false};
  std::atomic<int> read{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t id = newest.load(std::memory_order_acquire);
      const Lasting* found = map.find(id);
      if (found == nullptr) continue;
      const uint64_t twice = found->twice.load(std::memory_order_acquire);
      const uint64_t thrice = found->thrice.load(std::memory_order_acquire);
      if (map.find(id) != found) continue;
      EXPECT_EQ(twice * 3, thrice * 2);
      ++read;
    }
  });
  uint64_t before = 0;
  for (uint64_t i = 1; i < 100'000 || read < 100; ++i) {
    const uint64_t id = map.insert(i);
    newest.store(id, std::memory_order_release);
    if (before != 0) {
      EXPECT_TRUE(map.remove(before));
    }
    before = id;
  }
  stop.store(true, std::memory_order_relaxed);
  reader.join();
}

}  // namespace
}  // namespace vgpu
