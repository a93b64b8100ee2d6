// Slab space that comes back in any order: pieces never overlap, nothing is lost.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/ring/down_space.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace vgpu::protocol {
namespace {

constexpr uint64_t kSlab = 64 * 1024;

TEST(DownSpace, OnePieceHoldsNoOtherBack) {
  DownSpace space(kSlab);
  const Staging::Piece held = space.allocate(kSlab / 4);
  ASSERT_TRUE(held.ok());
  for (int i = 0; i < 100; ++i) {
    const Staging::Piece piece = space.allocate(kSlab / 2 + 1);
    ASSERT_TRUE(piece.ok()) << i;
    space.release(piece);
  }
  space.release(held);
  EXPECT_EQ(space.free_bytes(), kSlab);
  EXPECT_TRUE(space.allocate(kSlab).ok());
}

TEST(DownSpace, SaysNoAndTakesNothingTwice) {
  DownSpace space(kSlab);
  EXPECT_FALSE(space.allocate(0).ok());
  EXPECT_FALSE(space.allocate(kSlab + 1).ok());
  EXPECT_FALSE(space.allocate(UINT64_MAX).ok());
  const Staging::Piece piece = space.allocate(kSlab);
  EXPECT_FALSE(space.allocate(1).ok());
  space.release(piece);
  space.release(piece);
  space.release({});
  EXPECT_EQ(space.free_bytes(), kSlab);
  for (uint32_t i = 0; i < kSlab / kStagingAlignBytes; ++i) ASSERT_TRUE(space.allocate(1).ok());
  EXPECT_FALSE(space.allocate(1).ok());
}

TEST(DownSpace, RandomPiecesNeverOverlap) {
  DownSpace space(kSlab);
  std::mt19937 random(1);
  std::map<uint64_t, std::pair<Staging::Piece, uint64_t>> out;  // by offset, with their bytes
  for (int i = 0; i < 100'000; ++i) {
    if (random() % 2 == 0 && !out.empty()) {
      const auto which = std::next(out.begin(), random() % out.size());
      space.release(which->second.first);
      out.erase(which);
      continue;
    }
    const uint64_t bytes = 1 + random() % (kSlab / 4);
    const Staging::Piece piece = space.allocate(bytes);
    if (!piece.ok()) continue;
    ASSERT_EQ(piece.offset % kStagingAlignBytes, 0u);
    ASSERT_LE(piece.offset + bytes, kSlab);
    const auto [at, is_new] = out.insert({piece.offset, {piece, bytes}});
    ASSERT_TRUE(is_new);
    if (at != out.begin()) {
      const auto& [before, its] = *std::prev(at);
      ASSERT_LE(before + its.second, piece.offset);
    }
    if (std::next(at) != out.end()) {
      ASSERT_LE(piece.offset + bytes, std::next(at)->first);
    }
  }
  for (const auto& [offset, each] : out) space.release(each.first);
  EXPECT_EQ(space.free_bytes(), kSlab);
}

}  // namespace
}  // namespace vgpu::protocol
