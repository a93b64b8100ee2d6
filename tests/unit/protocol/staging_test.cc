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
  staging.bind(staging.allocate(kSlab / 2).ticket, 10);
  const Staging::Piece second = staging.allocate(kSlab / 2);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(staging.oldest_sequence(), 10u);
  staging.retire_through(9);
  EXPECT_FALSE(staging.allocate(1).ok());
  staging.retire_through(10);
  EXPECT_EQ(staging.oldest_sequence(), 0u);  // the second piece is not bound yet
  const Staging::Piece third = staging.allocate(kSlab / 2);
  EXPECT_TRUE(third.ok());
  staging.bind(third.ticket, 11);
  staging.retire_through(11);
  EXPECT_FALSE(staging.empty()) << "the second was given first and is not bound";
  staging.bind(second.ticket, 12);
  staging.retire_through(12);
  EXPECT_TRUE(staging.empty());
}

TEST(Staging, LargestPieceFitsWheneverEmpty) {
  Staging staging(kSlab);
  for (uint64_t sequence = 1; sequence < 100; ++sequence) {
    staging.bind(staging.allocate(sequence * 300).ticket, sequence);
    staging.retire_through(sequence);
    const Staging::Piece whole = staging.allocate(kSlab);
    ASSERT_TRUE(whole.ok()) << sequence;
    staging.bind(whole.ticket, sequence);
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
  for (uint32_t i = 0; i < kStagingEntriesMax; ++i) {
    const Staging::Piece piece = staging.allocate(1);
    ASSERT_TRUE(piece.ok());
    staging.bind(piece.ticket, 1);
  }
  EXPECT_FALSE(staging.allocate(1).ok());
  staging.retire_through(1);
  EXPECT_TRUE(staging.allocate(1).ok());
}

// What streams through a large slab, a few pieces at a time, stays at its low end.
TEST(Staging, LowOffsetsAreUsedAgain) {
  constexpr uint64_t kPiece = 256 * 1024, kInFlight = 3;
  Staging staging(16 << 20);
  for (uint64_t sequence = 1; sequence < 1000; ++sequence) {
    const Staging::Piece piece = staging.allocate(kPiece);
    ASSERT_TRUE(piece.ok());
    EXPECT_LT(piece.offset, kStagingWarmBytes + kInFlight * kPiece) << sequence;
    staging.bind(piece.ticket, sequence);
    if (sequence >= kInFlight) staging.retire_through(sequence - kInFlight + 1);
  }
}

// Against a plain model: live pieces never overlap and never leave the slab.
void random_pieces(uint64_t slab_bytes) {
  struct Live {
    uint64_t begin, end, sequence;
  };
  Staging staging(slab_bytes);
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
    staging.bind(piece.ticket, ++sequence);
    ASSERT_LE(piece.offset + bytes, slab_bytes);
    ASSERT_EQ(piece.offset % kStagingAlignBytes, 0u);
    for (const Live& other : live) {
      ASSERT_TRUE(piece.offset + bytes <= other.begin || piece.offset >= other.end);
    }
    live.push_back({piece.offset, piece.offset + bytes, sequence});
  }
  EXPECT_GT(given, 50'000);
}

TEST(Staging, RandomPiecesNeverOverlap) {
  random_pieces(kSlab);
  random_pieces(2 * kStagingWarmBytes);
}

}  // namespace
}  // namespace vgpu::protocol
