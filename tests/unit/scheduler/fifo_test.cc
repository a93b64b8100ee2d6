// The FIFO policy keeps order and its bound.
// SPDX-License-Identifier: Apache-2.0
#include "scheduler/fifo.h"

#include <gtest/gtest.h>

namespace vgpu::scheduler {
namespace {

TEST(Fifo, WithoutABoundEverythingStartsAtOnce) {
  Fifo fifo;
  for (uint64_t i = 1; i <= 1000; ++i) EXPECT_TRUE(fifo.admit({i % 3, i, 10}, 0));
  EXPECT_EQ(fifo.in_flight(), 1000u);
  EXPECT_EQ(fifo.cost_in_flight(), 10'000u);
}

TEST(Fifo, TheBoundHoldsAndFinishingMakesRoom) {
  Fifo fifo(2);
  EXPECT_TRUE(fifo.admit({1, 1, 5}, 0));
  EXPECT_TRUE(fifo.admit({1, 2, 5}, 0));
  EXPECT_FALSE(fifo.admit({1, 3, 5}, 0));
  fifo.finish({1, 1, 5}, 7, 0);
  EXPECT_TRUE(fifo.admit({1, 3, 5}, 0));
  EXPECT_EQ(fifo.in_flight(), 2u);
}

TEST(Fifo, WhoWasRefusedIsNext) {
  Fifo fifo(1);
  EXPECT_TRUE(fifo.admit({1, 1, 5}, 0));
  EXPECT_FALSE(fifo.admit({2, 1, 5}, 0));
  fifo.finish({1, 1, 5}, 0, 0);
  EXPECT_FALSE(fifo.admit({1, 2, 5}, 0)) << "passed a client that waits";
  EXPECT_TRUE(fifo.admit({2, 1, 5}, 0));
  fifo.finish({2, 1, 5}, 0, 0);
  EXPECT_TRUE(fifo.admit({1, 2, 5}, 0));
}

TEST(Fifo, FinishingMoreThanWasAdmittedIsHarmless) {
  Fifo fifo(1);
  fifo.finish({1, 1, 5}, 0, 0);
  EXPECT_EQ(fifo.in_flight(), 0u);
  EXPECT_TRUE(fifo.admit({1, 1, 5}, 0));
}

TEST(Fifo, WhoGoesAwayHoldsUpNobody) {
  Fifo fifo(1);
  EXPECT_TRUE(fifo.admit({1, 1, 5}, 0));
  EXPECT_FALSE(fifo.admit({2, 1, 5}, 0));
  EXPECT_FALSE(fifo.admit({3, 1, 5}, 0));
  fifo.withdraw(2, 0);
  fifo.finish({1, 1, 5}, 0, 0);
  EXPECT_TRUE(fifo.admit({3, 1, 5}, 0));
}

TEST(Fifo, EnginesAreApart) {
  Fifo fifo(1);
  EXPECT_TRUE(fifo.admit({1, 1, 5, Engine::kCompute}, 0));
  EXPECT_TRUE(fifo.admit({1, 2, 5, Engine::kToDevice}, 0));
  EXPECT_FALSE(fifo.admit({1, 3, 5, Engine::kToDevice}, 0));
  EXPECT_EQ(fifo.in_flight(Engine::kToDevice), 1u);
}

}  // namespace
}  // namespace vgpu::scheduler
