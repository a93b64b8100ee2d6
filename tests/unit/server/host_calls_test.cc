// Points at which functions of the guest's run: the words that streams wait for, on a driver that
// only remembers. SPDX-License-Identifier: Apache-2.0
#include "server/host_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/protocol/test_channel.h"

namespace vgpu::server {
namespace {

struct Placed {
  CUhostFn function = nullptr;
  void* point = nullptr;
  CUdeviceptr word = 0;
  uint32_t value = 0;
};
Placed g_placed;
CUresult g_refusal = CUDA_SUCCESS;

DriverTable fake_driver() {
  DriverTable driver;
  driver.cuMemHostRegister_v2 = [](void*, size_t, unsigned) { return CUDA_SUCCESS; };
  driver.cuMemHostUnregister = [](void*) { return CUDA_SUCCESS; };
  driver.cuMemHostGetDevicePointer_v2 = [](CUdeviceptr* address, void* memory, unsigned) {
    *address = reinterpret_cast<CUdeviceptr>(memory);
    return CUDA_SUCCESS;
  };
  driver.cuLaunchHostFunc = [](CUstream, CUhostFn function, void* point) {
    g_placed = {function, point, 0, 0};
    return g_refusal;
  };
  driver.cuStreamWaitValue32_v2 = [](CUstream, CUdeviceptr word, cuuint32_t value, unsigned) {
    g_placed.word = word;
    g_placed.value = value;
    return CUDA_SUCCESS;
  };
  return driver;
}

uint32_t word_at(CUdeviceptr address) {
  return __atomic_load_n(reinterpret_cast<uint32_t*>(address), __ATOMIC_ACQUIRE);
}

class HostCallsTest : public ::testing::Test {
 protected:
  void TearDown() override {
    calls_.stop();
    calls_.release_all(driver_);
    g_refusal = CUDA_SUCCESS;
  }
  HostPoint* take(uint64_t call, bool repeated) {
    HostPoint* point = nullptr;
    EXPECT_EQ(calls_.take(driver_, call, nullptr, repeated, &point), CUDA_SUCCESS);
    return point;
  }
  // The guest's thread, for one call.
  uint64_t serve() {
    protocol::HostCall call;
    EXPECT_EQ(channel_.guest->host_calls().next(&call), protocol::WaitResult::kReady);
    channel_.guest->host_calls().finish();
    return call.id;
  }
  static void wait_for(CUdeviceptr word, uint32_t value) {
    while (word_at(word) != value) std::this_thread::yield();
  }

  protocol::TestChannel channel_{protocol::SpinMode::kNever};
  DriverTable driver_ = fake_driver();
  std::atomic<int> broken_{0};
  HostCalls calls_{&channel_.worker->host_calls(), [this] { ++broken_; }, [] {}};
};

TEST_F(HostCallsTest, TheStreamGoesOnWhenTheGuestIsThrough) {
  for (uint64_t call = 1; call <= 300; ++call) {
    ASSERT_EQ(calls_.place(driver_, nullptr, take(call, false), false), CUDA_SUCCESS);
    const Placed placed = g_placed;
    EXPECT_EQ(word_at(placed.word), placed.value - 1) << "the stream waits";
    placed.function(placed.point);
    EXPECT_EQ(serve(), call);
    wait_for(placed.word, placed.value);
  }
}

TEST_F(HostCallsTest, APointThatIsRefusedIsFree) {
  g_refusal = CUDA_ERROR_INVALID_HANDLE;
  HostPoint* point = take(1, false);
  EXPECT_EQ(calls_.place(driver_, nullptr, point, false), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(take(2, false), point);
}

TEST_F(HostCallsTest, ARepeatedPointFallsBack) {
  HostPoint* point = take(7, true);
  EXPECT_EQ(point->value, 1u);
  for (int round = 0; round < 3; ++round) {
    HostCalls::reached(point);
    EXPECT_EQ(word_at(point->address), 0u);
    EXPECT_EQ(serve(), 7u);
    wait_for(point->address, 1);
  }
  HostCalls::reached(point);
  calls_.give(point);  // while the guest has it
  EXPECT_NE(take(8, true), point);
  EXPECT_EQ(serve(), 7u);
  wait_for(point->address, 1);
}

// A graph gives its points back itself, maybe later than its context goes.
TEST_F(HostCallsTest, ThePointsOfAContextGoOnce) {
  const auto* context = reinterpret_cast<const Context*>(&channel_);
  HostPoint *single = nullptr, *of_graph = nullptr;
  ASSERT_EQ(calls_.take(driver_, 1, context, false, &single), CUDA_SUCCESS);
  ASSERT_EQ(calls_.take(driver_, 2, context, true, &of_graph), CUDA_SUCCESS);
  calls_.give_all_of(context);
  EXPECT_EQ(take(3, false), single);
  EXPECT_NE(take(4, true), of_graph);
  calls_.give(of_graph);
  EXPECT_EQ(take(5, true), of_graph);
  EXPECT_NE(take(6, true), of_graph);
}

TEST_F(HostCallsTest, MoreThanThereIsRoomFor) {
  constexpr uint64_t kCalls = 3 * protocol::kHostCallEntries;
  std::vector<Placed> all;
  for (uint64_t call = 1; call <= kCalls; ++call) {
    ASSERT_EQ(calls_.place(driver_, nullptr, take(call, false), false), CUDA_SUCCESS);
    all.push_back(g_placed);
    g_placed.function(g_placed.point);
  }
  for (uint64_t call = 1; call <= kCalls; ++call) EXPECT_EQ(serve(), call);
  for (const Placed& each : all) wait_for(each.word, each.value);
}

TEST_F(HostCallsTest, WithoutItsGuestNothingWaits) {
  ASSERT_EQ(calls_.place(driver_, nullptr, take(1, false), false), CUDA_SUCCESS);
  const Placed posted = g_placed;
  posted.function(posted.point);
  ASSERT_EQ(calls_.place(driver_, nullptr, take(2, false), false), CUDA_SUCCESS);
  const Placed later = g_placed;
  calls_.stop();
  EXPECT_EQ(word_at(posted.word), posted.value);
  later.function(later.point);
  EXPECT_EQ(word_at(later.word), later.value);
}

TEST_F(HostCallsTest, AGuestThatLiesIsFound) {
  channel_.view().host_calls()->finished.position.store(9);
  ASSERT_EQ(calls_.place(driver_, nullptr, take(1, false), false), CUDA_SUCCESS);
  g_placed.function(g_placed.point);
  while (broken_.load() == 0) std::this_thread::yield();
  EXPECT_NE(word_at(g_placed.word), g_placed.value) << "nothing it says counts";
}

TEST_F(HostCallsTest, ErrorsAreToldWithoutAStream) {
  calls_.tell(5, CUDA_ERROR_ILLEGAL_ADDRESS);
  protocol::HostCall call;
  ASSERT_EQ(channel_.guest->host_calls().next(&call), protocol::WaitResult::kReady);
  EXPECT_EQ(call.id, 5u);
  EXPECT_EQ(call.status, CUDA_ERROR_ILLEGAL_ADDRESS);
  channel_.guest->host_calls().finish();
}

}  // namespace
}  // namespace vgpu::server
