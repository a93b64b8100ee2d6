// Device memory is never sold twice, whoever comes and goes.
// SPDX-License-Identifier: Apache-2.0
#include "server/grants.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace vgpu::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Grants, ARefusalSaysWhatIsFree) {
  Grants grants;
  grants.set_capacity(1024 * kMiB, 24 * kMiB, 100 * kMiB);
  ASSERT_TRUE(grants.take(1, 0).ok());
  EXPECT_EQ(grants.granted(), 100 * kMiB);
  const Result<uint64_t> refused = grants.take(2, 2000 * kMiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().text().find("900 MiB of 1000 MiB are free"), std::string::npos)
      << refused.status().text();
  EXPECT_FALSE(grants.take(1, kMiB).ok());
  EXPECT_FALSE(grants.take(3, ~uint64_t{0}).ok());
  grants.give_back(1);
  grants.give_back(1);
  EXPECT_EQ(grants.granted(), 0u);
}

TEST(Grants, HeadroomBeyondTheDeviceLeavesNothing) {
  Grants grants;
  grants.set_capacity(10 * kMiB, 20 * kMiB, 0);
  EXPECT_FALSE(grants.take(1, 0).ok());
}

TEST(Grants, AdoptedGuestsCountAndMayFillMoreThanThereIs) {
  Grants grants;
  grants.set_capacity(10 * kMiB, 0, 0);
  EXPECT_TRUE(grants.adopt(5, 30 * kMiB));
  EXPECT_EQ(grants.free_bytes(), 0u);
  EXPECT_FALSE(grants.take(1, 2 * kMiB).ok());
  grants.give_back(5);
  EXPECT_TRUE(grants.take(1, 2 * kMiB).ok());
}

TEST(Grants, NobodyIsAdoptedTwiceOrWithMoreThanCanBe) {
  Grants grants;
  grants.set_capacity(100 * kMiB, 0, 0);
  EXPECT_TRUE(grants.adopt(5, 30 * kMiB));
  EXPECT_FALSE(grants.adopt(5, kMiB)) << "the session is known";
  EXPECT_FALSE(grants.adopt(6, ~uint64_t{0} - kMiB)) << "the sum would wrap";
  EXPECT_EQ(grants.granted(), 30 * kMiB);
  grants.give_back(6);
  EXPECT_EQ(grants.granted(), 30 * kMiB);
}

TEST(Grants, NeverOversoldByThreads) {
  Grants grants;
  static constexpr uint64_t kCapacity = 500 * kMiB;
  grants.set_capacity(kCapacity, 0, 64 * kMiB);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&grants, t] {
      std::mt19937_64 random(t);
      std::vector<uint64_t> mine;
      for (uint64_t i = 0; i < 20'000; ++i) {
        if (random() % 2 == 0) {
          const uint64_t session = t << 32 | (i + 1);
          if (grants.take(session, random() % (200 * kMiB)).ok()) mine.push_back(session);
        } else if (!mine.empty()) {
          grants.give_back(mine.back());
          mine.pop_back();
        }
        EXPECT_LE(grants.granted(), kCapacity);
      }
      for (uint64_t session : mine) grants.give_back(session);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(grants.granted(), 0u);
}

// Three devices of 100 MiB.
class LedgersTest : public testing::Test {
 protected:
  LedgersTest() {
    for (uint32_t i = 0; i < 3; ++i) ledgers_.of(i).set_capacity(100 * kMiB, 0, 10 * kMiB);
  }
  Ledgers ledgers_;
};

TEST_F(LedgersTest, AllDevicesOrNone) {
  const auto granted = ledgers_.take(1, {2, 0}, {60 * kMiB});
  ASSERT_TRUE(granted.ok());
  EXPECT_EQ(granted->count, 2U);
  EXPECT_EQ(granted->device[0], 2U);
  EXPECT_EQ(sum_of(*granted), 120 * kMiB);
  EXPECT_EQ(ledgers_.of(1).granted(), 0U);
  const auto refused = ledgers_.take(2, {1, 2}, {60 * kMiB});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().text().find("device 2:"), std::string::npos);
  EXPECT_EQ(ledgers_.of(1).granted(), 0U) << "what was taken before is given back";
  EXPECT_EQ(ledgers_.of(2).granted(), 60 * kMiB);
  ledgers_.give_back(1);
  EXPECT_EQ(ledgers_.of(0).granted() + ledgers_.of(2).granted(), 0U);
  EXPECT_FALSE(ledgers_.take(3, {99}, {kMiB}).ok());
}

TEST_F(LedgersTest, EachDeviceHasItsDefault) {
  ledgers_.of(1).set_capacity(1000 * kMiB, 0, 0);
  const auto granted = ledgers_.take(1, {0, 1}, {0});
  ASSERT_TRUE(granted.ok());
  EXPECT_EQ(granted->bytes[0], 10 * kMiB);
  EXPECT_EQ(granted->bytes[1], 250 * kMiB);
}

TEST_F(LedgersTest, AdoptionIsChecked) {
  WorkerGrants grants;
  EXPECT_FALSE(ledgers_.adopt(1, grants)) << "of nothing";
  grants.count = 2;
  grants.device[0] = grants.device[1] = 1;
  grants.bytes[0] = grants.bytes[1] = kMiB;
  EXPECT_FALSE(ledgers_.adopt(1, grants)) << "twice the same device";
  EXPECT_EQ(ledgers_.of(1).granted(), 0U);
  grants.device[1] = 1000;
  EXPECT_FALSE(ledgers_.adopt(1, grants));
  grants.count = 1000;
  EXPECT_FALSE(ledgers_.adopt(1, grants));
  grants.count = 2;
  grants.device[1] = 2;
  EXPECT_TRUE(ledgers_.adopt(1, grants));
  EXPECT_EQ(ledgers_.of(2).granted(), kMiB);
  EXPECT_FALSE(ledgers_.adopt(1, grants)) << "known already";
  EXPECT_EQ(ledgers_.of(2).granted(), kMiB);
}

TEST_F(LedgersTest, GuestsGoWhereThereIsMostMemory) {
  EXPECT_EQ(ledgers_.emptiest(3, 1), (std::vector<uint32_t>{0}));
  ASSERT_TRUE(ledgers_.take(1, {0}, {50 * kMiB}).ok());
  EXPECT_EQ(ledgers_.emptiest(3, 1), (std::vector<uint32_t>{1}));
  ASSERT_TRUE(ledgers_.take(2, {1}, {20 * kMiB}).ok());
  EXPECT_EQ(ledgers_.emptiest(3, 2), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(ledgers_.emptiest(2, 9), (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace vgpu::server
