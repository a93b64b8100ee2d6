// What tenants hold, under guests that come, grow, shrink and go at once.
// SPDX-License-Identifier: Apache-2.0
#include "server/tenant_ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "server/grants.h"

namespace vgpu::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(TenantLedger, RefusalsNameWhatIsLeft) {
  TenantLedger ledger;
  const TenantBound bound{"alice", 100 * kMiB, 2};
  ASSERT_TRUE(ledger.take(1, bound, 60 * kMiB).ok());
  const Status refused = ledger.take(2, bound, 60 * kMiB);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.text().find("40 MiB of its 100 MiB left"), std::string::npos) << refused.text();
  ASSERT_TRUE(ledger.take(2, bound, 40 * kMiB).ok());
  EXPECT_NE(ledger.take(3, bound, 0).text().find("2 guests"), std::string::npos);
  ASSERT_TRUE(ledger.take(4, {"bob", 0, 0}, 1000 * kMiB).ok()) << "another tenant";
  ledger.give_back(1);
  ledger.give_back(1);
  EXPECT_EQ(ledger.held("alice").bytes, 40 * kMiB);
  EXPECT_EQ(ledger.held("alice").guests, 1U);
}

TEST(TenantLedger, SizesChangeWithinTheBound) {
  TenantLedger ledger;
  const TenantBound bound{"alice", 100 * kMiB, 0};
  ASSERT_TRUE(ledger.take(1, bound, 60 * kMiB).ok());
  EXPECT_FALSE(ledger.resize(1, bound, 101 * kMiB).ok());
  EXPECT_EQ(ledger.held("alice").bytes, 60 * kMiB);
  EXPECT_TRUE(ledger.resize(1, bound, 100 * kMiB).ok());
  EXPECT_TRUE(ledger.resize(1, {"alice", 10 * kMiB, 0}, 90 * kMiB).ok()) << "less is never refused";
  EXPECT_EQ(ledger.resize(9, bound, 1).code(), StatusCode::kNotFound);
}

TEST(Ledgers, AllOrNothingOfDevicesAndTenant) {
  Ledgers ledgers;
  ledgers.of(0).set_capacity(100 * kMiB, 0, 20 * kMiB);
  ledgers.of(1).set_capacity(50 * kMiB, 0, 20 * kMiB);
  const TenantBound bound{"alice", 200 * kMiB, 0};
  EXPECT_FALSE(ledgers.take(1, {0, 1}, {60 * kMiB, false, bound}).ok()) << "device 1 is too small";
  EXPECT_EQ(ledgers.held("alice").guests, 0U);
  EXPECT_EQ(ledgers.of(0).granted(), 0U);
  const auto granted = ledgers.take(1, {0, 1}, {40 * kMiB, false, bound});
  ASSERT_TRUE(granted.ok());
  EXPECT_EQ(ledgers.held("alice").bytes, 80 * kMiB);
  WorkerGrants more = *granted;
  more.bytes[0] = more.bytes[1] = 52 * kMiB;
  EXPECT_FALSE(ledgers.resize(1, *granted, more, bound).ok()) << "device 1 again";
  EXPECT_EQ(ledgers.of(0).granted(), 40 * kMiB);
  EXPECT_EQ(ledgers.held("alice").bytes, 80 * kMiB);
  more.bytes[1] = 50 * kMiB;
  EXPECT_TRUE(ledgers.resize(1, *granted, more, bound).ok());
  EXPECT_EQ(ledgers.of(1).free_bytes(), 0U);
}

TEST(Ledgers, AnExclusiveGuestIsAloneOnItsDevice) {
  Ledgers ledgers;
  ledgers.of(0).set_capacity(101 * kMiB, 0, 20 * kMiB);
  ASSERT_TRUE(ledgers.take(1, {0}, {20 * kMiB}).ok());
  const auto refused = ledgers.take(2, {0}, {0, true});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().text().find("whole device"), std::string::npos);
  ledgers.give_back(1);
  const auto whole = ledgers.take(2, {0}, {0, true});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->bytes[0], 100 * kMiB);
  EXPECT_FALSE(ledgers.take(3, {0}, {2 * kMiB}).ok());
}

// Threads take, grow, shrink and give back at random; what is out must never be more than there is,
// of any device and of any tenant, and at the end nothing is.
class Churn : public ::testing::TestWithParam<uint32_t> {};
TEST_P(Churn, NothingIsOversold) {
  constexpr uint64_t kDevice = 64 * kMiB, kTenant = 80 * kMiB;
  constexpr uint32_t kGuests = 3;
  Ledgers ledgers;
  for (uint32_t i = 0; i < 2; ++i) ledgers.of(i).set_capacity(kDevice, 0, 4 * kMiB);
  std::atomic<bool> oversold{false};
  const auto check = [&] {
    for (uint32_t i = 0; i < 2; ++i) oversold = oversold || ledgers.of(i).granted() > kDevice;
    for (const char* name : {"a", "b"}) {
      const TenantLedger::Held held = ledgers.held(name);
      oversold = oversold || held.bytes > kTenant || held.guests > kGuests;
    }
  };
  std::atomic<uint64_t> next{1};
  const auto run = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 400; ++i) {
      const TenantBound bound{random() % 2 == 0 ? "a" : "b", kTenant, kGuests};
      const uint64_t session = next++;
      std::vector<uint32_t> devices = {static_cast<uint32_t>(random() % 2)};
      if (random() % 3 == 0) devices = {0, 1};
      auto granted =
          ledgers.take(session, devices, {random() % 40 * kMiB, random() % 16 == 0, bound});
      check();
      if (!granted.ok()) continue;
      for (int step = 0; step < 3; ++step) {
        WorkerGrants wanted = *granted;
        for (uint32_t k = 0; k < wanted.count; ++k) wanted.bytes[k] = (1 + random() % 40) * kMiB;
        if (ledgers.resize(session, *granted, wanted, bound).ok()) *granted = wanted;
        check();
      }
      ledgers.give_back(session);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 4; ++i) threads.emplace_back(run, GetParam() * 16 + i);
  for (std::thread& each : threads) each.join();
  EXPECT_FALSE(oversold);
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(ledgers.of(i).granted(), 0U);
  EXPECT_EQ(ledgers.held("a").bytes + ledgers.held("b").bytes, 0U);
}
INSTANTIATE_TEST_SUITE_P(Seeds, Churn, ::testing::Range(0U, 8U));

}  // namespace
}  // namespace vgpu::server
