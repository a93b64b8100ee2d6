// Which clusters a launch gets, and their word on the wire.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "api/geometry/cluster.h"

namespace vgpu {
namespace {

constexpr CUresult kWrong = CUDA_ERROR_INVALID_CLUSTER_SIZE;

CUresult choose(const ClusterRules& rules, ClusterSize grid, ClusterSize asked,
                ClusterSize want = {}) {
  ClusterSize chosen;
  const CUresult result = choose_cluster(rules, grid.axis, asked, &chosen);
  EXPECT_TRUE(result != CUDA_SUCCESS || chosen == want);
  return result;
}

TEST(ClusterSize, WhatTheLaunchAsksFor) {
  ClusterRules rules;
  rules.served = true;
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {}, {}), CUDA_SUCCESS) << "none";
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{3, 2, 1}}, {{3, 2, 1}}), CUDA_SUCCESS);
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{1, 1, 1}}, {{1, 1, 1}}), CUDA_SUCCESS);
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{4, 1, 1}}), kWrong) << "no divisor";
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{6, 0, 1}}), kWrong);
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{6, 2, 1}}), kWrong) << "12 blocks";
  EXPECT_EQ(choose(rules, {{1u << 31, 1u << 31, 1}}, {{1u << 31, 1u << 31, 1}}), kWrong);
  rules.non_portable = true;
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{6, 2, 1}}, {{6, 2, 1}}), CUDA_SUCCESS);
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{6, 4, 1}}), kWrong) << "24 blocks";
  rules.most = 4;
  EXPECT_EQ(choose(rules, {{6, 4, 1}}, {{6, 1, 1}}), kWrong) << "more than its bounds";
  EXPECT_EQ(largest_cluster(rules), 4u);
}

TEST(ClusterSize, WhatTheKernelDemands) {
  ClusterRules rules;
  rules.served = rules.must_be_set = true;
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {}), kWrong);
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {{2, 1, 1}}, {{2, 1, 1}}), CUDA_SUCCESS);
  rules.required = {{4, 1, 1}};
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {}, {{4, 1, 1}}), CUDA_SUCCESS);
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {{4, 1, 1}}, {{4, 1, 1}}), CUDA_SUCCESS);
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {{2, 1, 1}}), kWrong);
  EXPECT_EQ(choose(rules, {{6, 1, 1}}, {}), kWrong);
  EXPECT_EQ(largest_cluster(rules), 4u);
  rules.required = {{4, 0, 0}};
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {}), kWrong) << "all or none";
}

TEST(ClusterSize, WhereThereAreNone) {
  const ClusterRules rules;
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {{2, 1, 1}}), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(choose(rules, {{4, 1, 1}}, {{1, 1, 1}}, {}), CUDA_SUCCESS) << "a launch without";
  EXPECT_EQ(largest_cluster(rules), 1u);
  int count = -1;
  EXPECT_EQ(count_clusters(rules, {{2, 1, 1}}, 4, 2, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0);
}

TEST(ClusterSize, HowManyFit) {
  ClusterRules rules;
  rules.served = true;
  int count = -1;
  EXPECT_EQ(count_clusters(rules, {}, 4, 2, &count), kWrong) << "no size";
  EXPECT_EQ(count_clusters(rules, {{3, 1, 1}}, 4, 2, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(count_clusters(rules, {{8, 1, 1}}, 1, 2, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 1) << "one always does";
  EXPECT_EQ(count_clusters(rules, {{8, 1, 1}}, 0, 2, &count), CUDA_SUCCESS);
  EXPECT_EQ(count, 0);
}

TEST(ClusterSize, OnTheWire) {
  ClusterSize read;
  for (const ClusterSize& size : {ClusterSize{}, {{1, 1, 1}}, {{16, 1, 1}}, {{2, 4, 2}}}) {
    ASSERT_TRUE(unpack_cluster(pack_cluster(size), &read));
    EXPECT_EQ(read, size);
  }
  for (const uint32_t word : {1u, 0x100u, 0x010100u, 0x010111u, 0x11010101u, 0x020303u, ~0u})
    EXPECT_FALSE(unpack_cluster(word, &read)) << word;
}

}  // namespace
}  // namespace vgpu
