// Quota and mapping, on a driver table that counts.
// SPDX-License-Identifier: Apache-2.0
#include "server/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "driver_recorder.h"

namespace vgpu::server {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr protocol::AddressRange kRange{0x2000'0000'0000, uint64_t{1} << 40};

class DeviceMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    DriverRecorder::instance().calls.clear();
    DriverRecorder::instance().result.clear();
    table_ = recording_table();
  }
  int calls(const char* name) { return DriverRecorder::instance().calls[name]; }
  DeviceMemory make(uint64_t quota,
                    protocol::AllocatorMode mode = protocol::AllocatorMode::kReserved) {
    return DeviceMemory(&table_, 0, quota, mode, kRange);
  }
  DriverTable table_;
};

TEST_F(DeviceMemoryTest, CreditNeverPassesTheQuota) {
  DeviceMemory memory = make(100 * kMiB);
  EXPECT_EQ(memory.back(64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.backed_bytes(), 64 * kMiB);
  EXPECT_EQ(memory.back(101 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.backed_bytes(), 64 * kMiB);
  EXPECT_EQ(memory.back(100 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.quota().left(), 0u);
  EXPECT_EQ(memory.back(~uint64_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DeviceMemoryTest, WhatIsGivenBackCanBeChargedAgain) {
  DeviceMemory memory = make(4 * kMiB);
  ASSERT_TRUE(memory.charge(4 * kMiB));
  EXPECT_FALSE(memory.charge(kMiB));
  EXPECT_EQ(memory.back(2 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  memory.give_back(3 * kMiB);
  EXPECT_TRUE(memory.charge(kMiB));
  EXPECT_EQ(memory.back(2 * kMiB), CUDA_SUCCESS);
  EXPECT_FALSE(memory.charge(1));
}

TEST_F(DeviceMemoryTest, MoreMeansMoreThanNow) {
  DeviceMemory memory = make(100 * kMiB);
  ASSERT_EQ(memory.back(64 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(kRange.base, 50 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.back_more(20 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.backed_bytes(), 84 * kMiB) << "though 14 MiB were ahead already";
  EXPECT_EQ(memory.back_more(20 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.backed_bytes(), 100 * kMiB) << "what was left";
  EXPECT_EQ(memory.back_more(101 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DeviceMemoryTest, EveryHandleIsMappedByItself) {
  DeviceMemory memory = make(64 * kMiB);
  ASSERT_EQ(memory.back(64 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(calls("cuMemCreate"), 32);
  ASSERT_EQ(memory.map(kRange.base, 34 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(calls("cuMemMap"), 17);
  EXPECT_EQ(calls("cuMemSetAccess"), 1) << "one for the whole range";
  EXPECT_EQ(memory.backed_bytes(), 64 * kMiB);
  EXPECT_TRUE(memory.owns(kRange.base, 34 * kMiB));
  EXPECT_FALSE(memory.owns(kRange.base, 34 * kMiB + 1));
}

TEST_F(DeviceMemoryTest, WhatIsReleasedIsQuotaAgain) {
  DeviceMemory memory = make(64 * kMiB);
  ASSERT_EQ(memory.back(64 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(kRange.base, 40 * kMiB), CUDA_SUCCESS);
  Charges shared;
  EXPECT_FALSE(memory.release(kRange.base, 42 * kMiB, &shared));
  EXPECT_FALSE(memory.release(kRange.base + kMiB, 2 * kMiB, &shared));
  EXPECT_FALSE(memory.release(kRange.base, 0, &shared));
  EXPECT_FALSE(memory.release(kRange.base, ~uint64_t{0} - 2 * kMiB + 1, &shared));
  ASSERT_TRUE(memory.release(kRange.base + 4 * kMiB, 16 * kMiB, &shared));
  EXPECT_FALSE(memory.release(kRange.base + 4 * kMiB, 2 * kMiB, &shared));
  EXPECT_FALSE(memory.owns(kRange.base + 4 * kMiB, 1));
  EXPECT_TRUE(memory.owns(kRange.base, 4 * kMiB));
  EXPECT_EQ(memory.back_more(16 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.backed_bytes(), 64 * kMiB) << "not given back yet";
  memory.give_back(16 * kMiB);
  EXPECT_EQ(memory.back_more(16 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.backed_bytes(), 80 * kMiB) << "all that ever was";
  EXPECT_EQ(memory.map(kRange.base + 4 * kMiB, 16 * kMiB), CUDA_SUCCESS) << "there again";
}

// A guest that shares its memory, frees it and allocates again would have ever more of the device.
TEST_F(DeviceMemoryTest, WhatOthersHaveCountsUntilTheyGiveItUp) {
  DeviceMemory memory = make(8 * kMiB);
  ASSERT_EQ(memory.back(8 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(kRange.base, 8 * kMiB), CUDA_SUCCESS);
  Charges theirs = memory.share_charges(kRange.base, 4 * kMiB);
  Charges again = memory.share_charges(kRange.base + 2 * kMiB, 2 * kMiB);
  EXPECT_EQ(theirs[1], again[0]) << "counted once";
  Charges shared;
  ASSERT_TRUE(memory.release(kRange.base, 6 * kMiB, &shared));
  ASSERT_EQ(shared.size(), 2U);
  memory.give_back(6 * kMiB - shared.size() * kHandleBytes);
  shared.clear();
  EXPECT_TRUE(memory.charge(2 * kMiB));
  EXPECT_FALSE(memory.charge(1)) << "others have it";
  theirs.clear();
  EXPECT_TRUE(memory.charge(2 * kMiB));
  EXPECT_FALSE(memory.charge(1)) << "somebody has it";
  again.clear();
  EXPECT_TRUE(memory.charge(2 * kMiB));
  EXPECT_FALSE(memory.charge(1));
}

TEST_F(DeviceMemoryTest, SharedMemoryThatStaysIsNotGivenBack) {
  DeviceMemory memory = make(4 * kMiB);
  ASSERT_EQ(memory.back(4 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(memory.map(kRange.base, 4 * kMiB), CUDA_SUCCESS);
  memory.share_charges(kRange.base, 4 * kMiB).clear();
  EXPECT_FALSE(memory.charge(1));
  std::shared_ptr<Charge> none = memory.charge_shared(2 * kMiB);
  EXPECT_EQ(none, nullptr);
}

TEST_F(DeviceMemoryTest, ReturnedCreditIsQuotaAgain) {
  DeviceMemory memory = make(64 * kMiB);
  ASSERT_TRUE(memory.back_ahead());
  EXPECT_FALSE(memory.charge(2 * kMiB));
  EXPECT_FALSE(memory.return_credit(66 * kMiB));
  EXPECT_FALSE(memory.return_credit(kMiB));
  EXPECT_TRUE(memory.return_credit(34 * kMiB));
  EXPECT_TRUE(memory.charge(34 * kMiB));
  memory.discharge(34 * kMiB);
  EXPECT_FALSE(memory.back_ahead()) << "until the guest asks";
  EXPECT_EQ(memory.back_more(2 * kMiB), CUDA_SUCCESS);
}

TEST_F(DeviceMemoryTest, RefusesWhatIsNotTheGuests) {
  DeviceMemory memory = make(64 * kMiB);
  ASSERT_EQ(memory.back(64 * kMiB), CUDA_SUCCESS);
  const CUresult wrong = CUDA_ERROR_INVALID_ADDRESS_SPACE;
  EXPECT_EQ(memory.map(kRange.base - 2 * kMiB, 2 * kMiB), wrong);
  EXPECT_EQ(memory.map(kRange.base + kRange.bytes - 2 * kMiB, 4 * kMiB), wrong);
  EXPECT_EQ(memory.map(kRange.base + 1, 2 * kMiB), wrong);
  EXPECT_EQ(memory.map(kRange.base, 0), wrong);
  EXPECT_EQ(memory.map(kRange.base, ~uint64_t{0} - 2 * kMiB + 1), wrong);
  EXPECT_EQ(memory.map(kRange.base, 66 * kMiB), wrong) << "beyond the credit";
  ASSERT_EQ(memory.map(kRange.base, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(memory.map(kRange.base, 2 * kMiB), wrong) << "mapped already";
  uint64_t freed = 0;
  EXPECT_FALSE(memory.disown(kRange.base, &freed));
  EXPECT_EQ(calls("cuMemMap"), 1);
}

TEST_F(DeviceMemoryTest, AQuotaMayChange) {
  DeviceMemory memory = make(8 * kMiB);
  ASSERT_EQ(memory.back(8 * kMiB), CUDA_SUCCESS);
  EXPECT_FALSE(memory.charge(2 * kMiB));
  memory.set_quota(10 * kMiB);
  EXPECT_TRUE(memory.charge(2 * kMiB));
  memory.set_quota(4 * kMiB);
  EXPECT_EQ(memory.quota().used(), 10 * kMiB) << "nothing is taken away";
  EXPECT_EQ(memory.quota().left(), 0u);
  EXPECT_FALSE(memory.charge(1));
  EXPECT_EQ(memory.back_more(2 * kMiB), CUDA_SUCCESS) << "as much as there is, which is nothing";
  EXPECT_EQ(memory.backed_bytes(), 8 * kMiB);
  EXPECT_FALSE(memory.back_ahead());
  ASSERT_TRUE(memory.return_credit(8 * kMiB));
  EXPECT_TRUE(memory.charge(2 * kMiB));
  EXPECT_FALSE(memory.charge(1));
}

// Who lowers the limit and then looks at what is used sees all that can ever be used above it.
TEST(QuotaTest, NothingSlipsThroughWhileTheLimitIsLowered) {
  for (int round = 0; round < 200; ++round) {
    Quota quota(1000);
    std::atomic<bool> stop{false};
    std::thread taker([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        if (!quota.take(7)) break;
      }
    });
    while (quota.used() < 100) {
    }
    quota.set_limit(200);
    const uint64_t seen = quota.used();
    stop = true;
    taker.join();
    EXPECT_LE(quota.used(), std::max<uint64_t>(seen, 200)) << "round " << round;
  }
}

TEST_F(DeviceMemoryTest, SlabsCountAgainstTheQuota) {
  DeviceMemory memory = make(100 * kMiB, protocol::AllocatorMode::kSlabs);
  CUdeviceptr address = 0x7000'0000'0000;
  EXPECT_EQ(memory.allocate(64 * kMiB, &address), CUDA_SUCCESS);
  EXPECT_EQ(memory.allocate(64 * kMiB, &address), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.allocate(0, &address), CUDA_ERROR_INVALID_VALUE);
  uint64_t freed = 0;
  ASSERT_TRUE(memory.disown(address, &freed));
  EXPECT_EQ(freed, 64 * kMiB);
  EXPECT_FALSE(memory.owns(address, 1));
  EXPECT_FALSE(memory.disown(address, &freed));
  EXPECT_EQ(memory.allocate(64 * kMiB, &address), CUDA_ERROR_OUT_OF_MEMORY) << "not free yet";
  memory.give_back(freed);
  EXPECT_EQ(memory.allocate(64 * kMiB, &address), CUDA_SUCCESS);
}

TEST_F(DeviceMemoryTest, AFailingDriverLeavesTheQuotaRight) {
  DriverRecorder::instance().result["cuMemCreate"] = CUDA_ERROR_OUT_OF_MEMORY;
  DeviceMemory memory = make(100 * kMiB);
  EXPECT_EQ(memory.back(10 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(memory.quota().used(), 0u);
  EXPECT_EQ(memory.backed_bytes(), 0u);
}

}  // namespace
}  // namespace vgpu::server
