// The blocks of a cluster together: phases of the barrier, who has left, whose memory it is.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/cluster.h"

#include <gtest/gtest.h>

#include "softgpu/exec/cluster_barrier.h"
#include "softgpu/exec/faults.h"

namespace vgpu::softgpu {
namespace {

TEST(Cluster, APhaseEndsWhenAllHaveArrivedOrLeft) {
  Cluster cluster;
  ASSERT_TRUE(cluster.begin(3, 100));
  cluster.arrive();
  cluster.arrive();
  EXPECT_EQ(cluster.phase(), 0u);
  cluster.arrive();
  EXPECT_EQ(cluster.phase(), 1u);
  cluster.arrive();
  cluster.leave(false);
  EXPECT_EQ(cluster.phase(), 1u);
  cluster.leave(false);
  EXPECT_EQ(cluster.phase(), 2u) << "the last one left has arrived";
  cluster.arrive();
  EXPECT_EQ(cluster.phase(), 3u) << "alone";
}

TEST(Cluster, WhoLeavesAfterArrivingDoesNotCountTwice) {
  Cluster cluster;
  ASSERT_TRUE(cluster.begin(2, 0));
  cluster.arrive();
  cluster.leave(true);
  EXPECT_EQ(cluster.phase(), 0u);
  cluster.arrive();
  EXPECT_EQ(cluster.phase(), 1u);
}

TEST(Cluster, OnlyTheWindowsCanBeTouched) {
  Cluster cluster;
  for (const size_t bytes : {size_t{5000}, size_t{100}}) {
    ASSERT_TRUE(cluster.begin(2, bytes));
    const auto touches = [&](size_t at) {
      return runs_without_fault([&] { static_cast<volatile uint8_t*>(cluster.memory())[at] = 1; });
    };
    EXPECT_TRUE(touches(bytes - 1));
    EXPECT_TRUE(touches(kClusterWindow + bytes - 1));
    EXPECT_FALSE(touches(bytes + 4096));
    EXPECT_FALSE(touches(size_t{2} * kClusterWindow)) << "no such block";
    EXPECT_FALSE(touches(size_t{kRanks - 1} * kClusterWindow));
  }
  EXPECT_FALSE(cluster.begin(kRanks + 1, 100));
  EXPECT_FALSE(cluster.begin(2, kClusterWindow)) << "no room for what lies behind";
}

TEST(ClusterBarrier, LanesThatArrivedBeforePassAndOthersWait) {
  ClusterBarrier barrier;
  const uint32_t alive[2] = {0xf, 0x3};
  barrier.arrive(0, 0xf);
  EXPECT_FALSE(barrier.announces(alive, 2)) << "the second warp has not";
  EXPECT_EQ(barrier.wait(0, 0x1), 0u);
  barrier.arrive(1, 0x3);
  EXPECT_TRUE(barrier.announces(alive, 2));
  EXPECT_FALSE(barrier.announces(alive, 2)) << "once";
  uint32_t waiting[2];
  barrier.open(waiting, 2);
  EXPECT_EQ(waiting[0], 0x1u);
  EXPECT_EQ(waiting[1], 0u);
  EXPECT_EQ(barrier.wait(0, 0xe), 0xeu) << "it is open";
  EXPECT_EQ(barrier.wait(0, 0x2), 0u) << "once";
  EXPECT_EQ(barrier.phase(), 1u);
}

TEST(ClusterBarrier, NobodyIsNotEverybody) {
  ClusterBarrier barrier;
  const uint32_t nobody[1] = {0}, one[1] = {2};
  barrier.arrive(0, 1);
  EXPECT_FALSE(barrier.announces(nobody, 1));
  EXPECT_FALSE(barrier.announces(one, 1));
}

}  // namespace
}  // namespace vgpu::softgpu
