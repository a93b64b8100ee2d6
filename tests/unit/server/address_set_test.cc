// Ranges of addresses against a bitmap.
// SPDX-License-Identifier: Apache-2.0
#include "server/address_set.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace vgpu::server {
namespace {

TEST(AddressSet, RangesThatWrapAreNeverIn) {
  AddressSet set;
  EXPECT_FALSE(set.insert(~uint64_t{0} - 10, 100));
  EXPECT_TRUE(set.insert(0x1000, 0x1000));
  EXPECT_FALSE(set.contains(0x1800, ~uint64_t{0}));
  EXPECT_TRUE(set.overlaps(0x1000, ~uint64_t{0}));
}

TEST(AddressSet, NeighboursCountAsOne) {
  AddressSet set;
  EXPECT_TRUE(set.insert(0x1000, 0x1000));
  EXPECT_TRUE(set.insert(0x2000, 0x1000));
  EXPECT_TRUE(set.contains(0x1800, 0x1000));
  EXPECT_FALSE(set.insert(0x2800, 0x1000));
  set.erase(0x1800, 0x1000);
  EXPECT_FALSE(set.contains(0x1800, 1));
  EXPECT_TRUE(set.contains(0x1000, 0x800));
  EXPECT_TRUE(set.contains(0x2800, 0x800));
}

TEST(AddressSet, AgreesWithABitmap) {
  constexpr size_t kSize = 256;
  std::mt19937 random(7);
  AddressSet set;
  std::bitset<kSize> bits;
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t base = random() % kSize;
    const uint64_t bytes = 1 + random() % std::min<uint64_t>(24, kSize - base);
    bool all = true, any = false;
    for (uint64_t i = base; i < base + bytes; ++i) all &= bits[i], any |= bits[i];
    ASSERT_EQ(set.contains(base, bytes), all) << step;
    ASSERT_EQ(set.overlaps(base, bytes), any) << step;
    switch (random() % 3) {
      case 0:
        ASSERT_EQ(set.insert(base, bytes), !any);
        if (!any) {
          for (uint64_t i = base; i < base + bytes; ++i) bits[i] = true;
        }
        break;
      case 1:
        set.merge(base, bytes);
        for (uint64_t i = base; i < base + bytes; ++i) bits[i] = true;
        break;
      default:
        set.erase(base, bytes);
        for (uint64_t i = base; i < base + bytes; ++i) bits[i] = false;
    }
  }
}

}  // namespace
}  // namespace vgpu::server
