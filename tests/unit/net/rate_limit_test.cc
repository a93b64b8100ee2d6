// Buckets of tokens, in time that the test makes.
// SPDX-License-Identifier: Apache-2.0
#include "net/control/rate_limit.h"

#include <gtest/gtest.h>

namespace vgpu::net {
namespace {

int taken(RateLimit* limit, const std::string& name, uint64_t now_ms, int tries) {
  int count = 0;
  for (int i = 0; i < tries; ++i) count += limit->take(name, now_ms);
  return count;
}

TEST(RateLimit, IsABurstAndThenARate) {
  RateLimit limit(20, 10);
  EXPECT_EQ(taken(&limit, "a", 1000, 100), 20);
  EXPECT_EQ(taken(&limit, "a", 1000, 100), 0);
  EXPECT_EQ(taken(&limit, "a", 1099, 100), 0);
  EXPECT_EQ(taken(&limit, "a", 1100, 100), 1);
  EXPECT_EQ(taken(&limit, "a", 2100, 100), 10);
  EXPECT_EQ(taken(&limit, "a", 900'000, 100), 20) << "idleness saves no more than a burst";
}

TEST(RateLimit, IsForEachName) {
  RateLimit limit(2, 1);
  EXPECT_EQ(taken(&limit, "a", 0, 10), 2);
  EXPECT_EQ(taken(&limit, "b", 0, 10), 2);
}

TEST(RateLimit, TimeThatGoesBackGivesNothing) {
  RateLimit limit(1, 1000);
  EXPECT_TRUE(limit.take("a", 5000));
  EXPECT_FALSE(limit.take("a", 10));
  EXPECT_FALSE(limit.take("a", 5000));
  EXPECT_TRUE(limit.take("a", 5001));
}

TEST(RateLimit, HoldsNoMoreNamesThanItMay) {
  RateLimit limit(2, 1);
  for (size_t i = 0; i < RateLimit::kNamesMax; ++i) {
    EXPECT_TRUE(limit.take(std::to_string(i), 0));
  }
  EXPECT_FALSE(limit.take("one more", 0)) << "all are in use";
  EXPECT_TRUE(limit.take("one more", 60'000));
  EXPECT_EQ(limit.names(), 1u) << "those that are full are forgotten";
}

}  // namespace
}  // namespace vgpu::net
