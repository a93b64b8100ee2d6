// Estimates follow what was measured, kind by kind; buckets follow the clock.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/estimate.h"

#include <gtest/gtest.h>

#include "scheduler/token_bucket.h"

namespace vgpu::scheduler {
namespace {

TEST(Estimates, UnknownKindsCostWhatWasSaid) {
  Estimates estimates(500);
  EXPECT_EQ(estimates.estimate(7), 500u);
  estimates.measured(7, 1000);
  EXPECT_EQ(estimates.estimate(7), 1000u);
  EXPECT_EQ(estimates.estimate(8), 500u);
}

TEST(Estimates, FollowAChange) {
  Estimates estimates(500);
  estimates.measured(7, 1000);
  for (int i = 0; i < 20; ++i) estimates.measured(7, 9000);
  EXPECT_NEAR(static_cast<double>(estimates.estimate(7)), 9000, 100);
}

TEST(Estimates, KindsThatCollideDoNotMix) {
  Estimates estimates(500);
  estimates.measured(1, 1000);
  estimates.measured(1 + Estimates::kEntries, 9000);
  EXPECT_EQ(estimates.estimate(1), 500u);
  EXPECT_EQ(estimates.estimate(1 + Estimates::kEntries), 9000u);
  EXPECT_GT(estimates.typical(), 500u);
}

TEST(TokenBucket, FillsToItsBurstAndPaysDebts) {
  TokenBucket bucket(250, 1000, 0);
  bucket.fill(400);
  EXPECT_EQ(bucket.tokens(), 100);
  bucket.fill(1'000'000);
  EXPECT_EQ(bucket.tokens(), 1000);
  bucket.charge(3000);
  EXPECT_EQ(bucket.ready_at(1), 1'000'000u + 4 * 2001);
  EXPECT_EQ(bucket.ready_at(1001), kNever) << "more than it can hold";
  bucket.fill(1'000'000 + 4 * 2001);
  EXPECT_EQ(bucket.tokens(), 1);
}

TEST(TokenBucket, LosesNothingToRounding) {
  TokenBucket bucket(1, 1'000'000, 0);
  for (uint64_t now = 1; now <= 1'000'000; ++now) bucket.fill(now);
  EXPECT_EQ(bucket.tokens(), 1000);
}

TEST(TokenBucket, AClockThatStandsOrRunsBackGivesNothing) {
  TokenBucket bucket(500, 1000, 100);
  bucket.fill(50);
  bucket.fill(100);
  EXPECT_EQ(bucket.tokens(), 0);
}

}  // namespace
}  // namespace vgpu::scheduler
