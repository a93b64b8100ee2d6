// BlockRunner with hand-written warps in place of compiled ones: barriers, yields, faults, stop.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/block.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <bit>

#include "softgpu/exec/block_services.h"
#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {
namespace {

struct Result {
  uint32_t threads = 0, seen_at_barrier = 0;
  uint64_t tid_sum[3] = {};
  uint32_t votes = 0;
  std::atomic<uint32_t> turns = 0;
  uint8_t* hole = nullptr;
};

Result& result_of(WarpContext* c) { return **reinterpret_cast<Result* const*>(c->params); }

// Counts itself, waits for all, then looks whether everybody was counted.
int count_then_wait(WarpContext* c) {
  Result& r = result_of(c);
  if (c->resume == 0) {
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
      if (((c->mask >> lane) & 1) == 0) continue;
      ++r.threads;
      for (int d = 0; d < 3; ++d) r.tid_sum[d] += c->tid[d][lane];
    }
    c->resume = 1;
    c->barrier_id = 3;
    c->barrier_op = kBarrierPopc;
    c->barrier_votes = c->mask & 1;  // one vote per warp
    return kWarpAtBarrier;
  }
  r.seen_at_barrier += r.threads;
  r.votes = c->barrier_result;
  return kWarpFinished;
}

int wait_for_second_warp(WarpContext* c) {
  Result& r = result_of(c);
  if (c->warp_id == 1) {
    r.turns = 100;
    return kWarpFinished;
  }
  return r.turns == 100 ? kWarpFinished : kWarpYielded;
}

int spin(WarpContext* c) {
  ++result_of(c).turns;
  return kWarpYielded;
}

int touch_hole(WarpContext* c) {
  *static_cast<volatile uint8_t*>(result_of(c).hole + 5) = 1;
  return kWarpFinished;
}

int trap_at_line_7(WarpContext* c) {
  c->fault_line = 7;
  return kWarpTrapped;
}

int abort_from_helper(WarpContext* c) { c->services->abort(CUDA_ERROR_ASSERT, 0x1234, "text"); }

int overrun_shared(WarpContext* c) {
  c->shared[c->total_shared_bytes + 5] = 1;
  return kWarpFinished;
}

class BlockTest : public testing::Test {
 protected:
  BlockStep start(int (*entry)(WarpContext*), Dim3 block) {
    kernel_.entry = entry;
    kernel_.name = "hand_written";
    grid_.block = block;
    grid_.params = reinterpret_cast<const uint8_t*>(&result_address_);
    grid_.stop = &stop_;
    EXPECT_TRUE(runner_.begin(kernel_, grid_, {0, 0, 0}, 0));
    return runner_.run();
  }

  Result result_;
  Result* result_address_ = &result_;
  std::atomic<uint32_t> stop_ = 0;
  CompiledKernel kernel_;
  GridParams grid_;
  BlockRunner runner_;
};

TEST_F(BlockTest, BarrierWaitsForEveryThreadAndReduces) {
  ASSERT_EQ(start(count_then_wait, {5, 7, 3}), BlockStep::kFinished);  // 105 threads, 4 warps
  EXPECT_EQ(result_.threads, 105u);
  EXPECT_EQ(result_.seen_at_barrier, 4 * 105u);
  EXPECT_EQ(result_.votes, 4u);
  EXPECT_EQ(result_.tid_sum[0], 21u * (0 + 1 + 2 + 3 + 4));
  EXPECT_EQ(result_.tid_sum[1], 15u * 21);
  EXPECT_EQ(result_.tid_sum[2], 35u * 3);
}

TEST_F(BlockTest, YieldLetsOtherWarpsRun) {
  EXPECT_EQ(start(wait_for_second_warp, {64, 1, 1}), BlockStep::kFinished);
}

TEST_F(BlockTest, SpinningBlockYieldsAndLeavesOnStop) {
  ASSERT_EQ(start(spin, {32, 1, 1}), BlockStep::kYielded);
  ASSERT_EQ(runner_.run(), BlockStep::kYielded);
  stop_ = 1;
  EXPECT_EQ(runner_.run(), BlockStep::kStopped);
}

TEST_F(BlockTest, IllegalAddressIsReportedAndTheRunnerGoesOn) {
  void* hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  result_.hole = static_cast<uint8_t*>(hole);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(start(touch_hole, {32, 1, 1}), BlockStep::kFault);
    EXPECT_EQ(runner_.fault().code, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(runner_.fault().address, reinterpret_cast<uint64_t>(hole) + 5);
    EXPECT_EQ(runner_.fault().kernel, "hand_written");
  }
  munmap(hole, 4096);
  EXPECT_EQ(start(count_then_wait, {32, 1, 1}), BlockStep::kFinished);
}

TEST_F(BlockTest, SharedWindowHasAGuardPage) {
  grid_.dynamic_shared_bytes = 4096;
  ASSERT_EQ(start(overrun_shared, {32, 1, 1}), BlockStep::kFault);
  EXPECT_EQ(runner_.fault().code, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(BlockTest, TrapAndAbortName) {
  ASSERT_EQ(start(trap_at_line_7, {32, 1, 1}), BlockStep::kFault);
  EXPECT_EQ(runner_.fault().code, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(runner_.fault().text, "trap at PTX line 7");
  ASSERT_EQ(start(abort_from_helper, {32, 1, 1}), BlockStep::kFault);
  EXPECT_EQ(runner_.fault().code, CUDA_ERROR_ASSERT);
  EXPECT_EQ(runner_.fault().address, 0x1234u);
}

TEST_F(BlockTest, RefusesImpossibleShapes) {
  grid_.block = {1025, 1, 1};
  EXPECT_FALSE(runner_.begin(kernel_, grid_, {}, 0));
  grid_.block = {0, 1, 1};
  EXPECT_FALSE(runner_.begin(kernel_, grid_, {}, 0));
}

}  // namespace
}  // namespace vgpu::softgpu
