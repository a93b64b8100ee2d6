// Slab space: order, wrap, retirement; pieces never overlap.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/staging.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace vgpu::protocol {
namespace {

constexpr uint64_t kSlab = 64 * 1024;

TEST(Staging, GivesAlignedSpaceUntilFull) {
  Staging staging(kSlab);
  const Staging::Piece first = staging.allocate(1);
  const Staging::Piece second = staging.allocate(kSlab - kStagingAlignBytes);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first.offset, 0u);
  EXPECT_EQ(second.offset, kStagingAlignBytes);
  EXPECT_FALSE(staging.allocate(1).ok());
  EXPECT_FALSE(staging.allocate(0).ok());
  EXPECT_FALSE(staging.allocate(kSlab + 1).ok());
  EXPECT_FALSE(staging.allocate(UINT64_MAX).ok());
}

TEST(Staging, RetiresBySequence) {
  Staging staging(kSlab);
  ASSERT_TRUE(staging.allocate(kSlab / 2).ok());
  staging.bind_open(10);
  ASSERT_TRUE(staging.allocate(kSlab / 2).ok());
  EXPECT_EQ(staging.oldest_sequence(), 10u);
  staging.retire_through(9);
  EXPECT_FALSE(staging.allocate(1).ok());
  staging.retire_through(10);
  EXPECT_EQ(staging.oldest_sequence(), 0u);  // the second piece is not bound yet
  EXPECT_TRUE(staging.allocate(kSlab / 2).ok());
  staging.bind_open(11);
  staging.retire_through(11);
  EXPECT_TRUE(staging.empty());
}

TEST(Staging, LargestPieceFitsWheneverEmpty) {
  Staging staging(kSlab);
  for (uint64_t sequence = 1; sequence < 100; ++sequence) {
    ASSERT_TRUE(staging.allocate(sequence * 300).ok());
    staging.bind_open(sequence);
    staging.retire_through(sequence);
    ASSERT_TRUE(staging.allocate(kSlab).ok()) << sequence;
    staging.bind_open(sequence);
    staging.retire_through(sequence);
  }
}

TEST(Staging, ReleaseOutOfOrderFreesInOrder) {
  Staging staging(kSlab);
  const Staging::Piece a = staging.allocate(kSlab / 2);
  const Staging::Piece b = staging.allocate(kSlab / 2);
  staging.release(b.ticket);
  EXPECT_FALSE(staging.allocate(1).ok());
  staging.release(a.ticket);
  EXPECT_TRUE(staging.empty());
  staging.release(a.ticket);  // twice is harmless
  staging.release(999);
  EXPECT_TRUE(staging.allocate(kSlab).ok());
}

TEST(Staging, NumberOfPiecesIsBounded) {
  Staging staging(kStagingAlignBytes * (kStagingEntriesMax + 10));
  for (uint32_t i = 0; i < kStagingEntriesMax; ++i) ASSERT_TRUE(staging.allocate(1).ok());
  EXPECT_FALSE(staging.allocate(1).ok());
  staging.bind_open(1);
  staging.retire_through(1);
  EXPECT_TRUE(staging.allocate(1).ok());
}

// Against a plain model: live pieces never overlap and never leave the slab.
TEST(Staging, RandomPiecesNeverOverlap) {
  struct Live {
    uint64_t begin, end, sequence;
  };
  Staging staging(kSlab);
  std::deque<Live> live;
  std::mt19937_64 random(7);
  uint64_t sequence = 0;
  int given = 0;
  for (int i = 0; i < 200'000; ++i) {
    const uint64_t bytes = 1 + random() % 9000;
    const Staging::Piece piece = staging.allocate(bytes);
    if (!piece.ok()) {
      ASSERT_FALSE(live.empty());
      const uint64_t through = live[random() % live.size()].sequence;
      staging.retire_through(through);
      while (!live.empty() && live.front().sequence <= through) live.pop_front();
      continue;
    }
    ++given;
    staging.bind_open(++sequence);
    ASSERT_LE(piece.offset + bytes, kSlab);
    ASSERT_EQ(piece.offset % kStagingAlignBytes, 0u);
    for (const Live& other : live) {
      ASSERT_TRUE(piece.offset + bytes <= other.begin || piece.offset >= other.end);
    }
    live.push_back({piece.offset, piece.offset + bytes, sequence});
  }
  EXPECT_GT(given, 50'000);
}

}  // namespace
}  // namespace vgpu::protocol
