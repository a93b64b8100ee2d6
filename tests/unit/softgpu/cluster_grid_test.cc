// Clusters on a device, with hand-written warps in place of compiled ones.
// SPDX-License-Identifier: Apache-2.0
#include "device_grid_support.h"
#include "softgpu/exec/block_services.h"

namespace vgpu::softgpu {
namespace {

// Every block waits for its cluster, which finds its neighbour's mark then.
int meet_cluster(WarpContext* c) {
  const auto mark = [&](uint32_t rank) -> uint32_t& {
    return *reinterpret_cast<uint32_t*>(c->shared + size_t{rank} * kClusterWindow);
  };
  if (c->resume == 0) {
    c->resume = 1;
    mark((c->cluster->rank + 1) % c->cluster->blocks) = c->ctaid[0] / c->cluster->blocks + 1;
    c->services->cluster_barrier.arrive(c->warp_id, c->mask);
    c->barrier_op = kBarrierCluster;
    return kWarpAtBarrier;
  }
  if (mark(c->cluster->rank) != c->cluster->cluster[0] + 1) return kWarpTrapped;
  board_of(c).arrived.fetch_add(1);
  return kWarpFinished;
}

// The last block of each cluster fails, after the others have begun to wait for ever.
int fail_beside_waiters(WarpContext* c) {
  if (c->cluster->rank + 1 == c->cluster->blocks) return kWarpTrapped;
  c->barrier_op = kBarrierCluster;
  return kWarpAtBarrier;
}

TEST_F(GridTest, BlocksOfAClusterWaitForEachOther) {
  for (const uint32_t size : {1u, 3u, 8u, 16u}) {
    make_device(2);
    const auto stream = open(false);
    board_->arrived = 0;
    const uint32_t blocks = size * 37;
    management().wait_for(*stream, launch(stream, meet_cluster, {blocks, 1, 1}, 0, {size, 1, 1}));
    EXPECT_EQ(channel_->sticky(), CUDA_SUCCESS);
    EXPECT_EQ(board_->arrived.load(), blocks);
  }
}

TEST_F(GridTest, AFaultInAClusterEndsThoseThatWait) {
  make_device(2);
  const auto stream = open(false);
  management().wait_for(*stream, launch(stream, fail_beside_waiters, {40, 1, 1}, 0, {4, 1, 1}));
  EXPECT_EQ(channel_->sticky(), CUDA_ERROR_LAUNCH_FAILED);
}

// However many wait already, a cluster that begins does so as a whole.
TEST_F(GridTest, AClusterFitsBesideBlocksThatWait) {
  make_device(1);
  const auto first = open(false), second = open(false);
  const uint64_t last = launch(first, wait_for_gate, {63, 1, 1});
  wait_started(63);
  management().wait_for(*second, launch(second, meet_cluster, {32, 1, 1}, 0, {16, 1, 1}));
  EXPECT_EQ(board_->arrived.load(), 32u);
  board_->gate = 1;
  management().wait_for(*first, last);
  EXPECT_EQ(channel_->sticky(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace vgpu::softgpu
