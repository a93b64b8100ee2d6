// Addresses belong to nobody while a block comes or goes.
// SPDX-License-Identifier: Apache-2.0
#include "server/host_blocks.h"

#include <gtest/gtest.h>

namespace vgpu::server {
namespace {

TEST(HostBlocks, ComeAndGo) {
  HostBlocks blocks;
  ASSERT_TRUE(blocks.begin_map(4096, 8192));
  EXPECT_FALSE(blocks.contains(4096, 1)) << "still on its way";
  EXPECT_FALSE(blocks.begin_map(8192, 4096)) << "taken";
  uint64_t bytes = 0;
  EXPECT_FALSE(blocks.begin_unmap(4096, &bytes)) << "still on its way";
  blocks.end_map(4096, true);
  EXPECT_TRUE(blocks.contains(4096, 8192));
  EXPECT_FALSE(blocks.contains(4096, 8193));
  EXPECT_FALSE(blocks.begin_unmap(8192, &bytes)) << "not where a block begins";
  ASSERT_TRUE(blocks.begin_unmap(4096, &bytes));
  EXPECT_EQ(bytes, 8192u);
  EXPECT_FALSE(blocks.contains(4096, 1)) << "leaving";
  EXPECT_FALSE(blocks.begin_unmap(4096, &bytes)) << "leaving";
  EXPECT_FALSE(blocks.begin_map(4096, 4096)) << "leaving";
  blocks.end_unmap(4096);
  EXPECT_TRUE(blocks.begin_map(4096, 4096));
}

TEST(HostBlocks, WhatTheDriverRefusesIsFreeAgain) {
  HostBlocks blocks;
  ASSERT_TRUE(blocks.begin_map(4096, 4096));
  blocks.end_map(4096, false);
  EXPECT_FALSE(blocks.contains(4096, 1));
  EXPECT_TRUE(blocks.begin_map(4096, 4096));
}

TEST(HostBlocks, TheirSumIsBounded) {
  HostBlocks blocks;
  blocks.bound(3 * 4096);
  EXPECT_TRUE(blocks.fits(3 * 4096));
  EXPECT_FALSE(blocks.fits(~uint64_t{0}));
  ASSERT_TRUE(blocks.begin_map(4096, 2 * 4096));
  EXPECT_TRUE(blocks.fits(4096));
  EXPECT_FALSE(blocks.fits(4097));
  blocks.end_map(4096, true);
  uint64_t bytes = 0;
  ASSERT_TRUE(blocks.begin_unmap(4096, &bytes));
  EXPECT_FALSE(blocks.fits(2 * 4096)) << "leaving";
  blocks.end_unmap(4096);
  EXPECT_TRUE(blocks.fits(3 * 4096));
}

TEST(HostBlocks, NeighboursAreOneRangeForCopies) {
  HostBlocks blocks;
  for (uint64_t address : {4096, 8192}) {
    ASSERT_TRUE(blocks.begin_map(address, 4096));
    blocks.end_map(address, true);
  }
  EXPECT_TRUE(blocks.contains(6000, 4096));
  EXPECT_FALSE(blocks.begin_map(~uint64_t{0} - 4095, 8192)) << "wraps";
}

}  // namespace
}  // namespace vgpu::server
