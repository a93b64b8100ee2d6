// DeviceSegment between processes: one ledger, one set of tokens, and what the dead leave behind.
// SPDX-License-Identifier: Apache-2.0
#include "softgpu/exec/device_segment.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace vgpu::softgpu {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class DeviceSegmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/vgpu-segment-XXXXXX";
    const int fd = ::mkstemp(path);
    ASSERT_GE(fd, 0);
    ::close(fd);
    config_ = read_device_config();
    config_.segment_path = path;
    config_.memory_bytes = 64 * kMiB;
    config_.sms = 2;
  }
  void TearDown() override { ::unlink(config_.segment_path.c_str()); }

  std::unique_ptr<DeviceSegment> open() {
    auto segment = DeviceSegment::open(config_);
    EXPECT_TRUE(segment.ok()) << segment.status().to_string();
    return segment.ok() ? std::move(segment).value() : nullptr;
  }

  // A process that takes memory and a token, says so, and waits to be killed.
  pid_t start_holder(uint64_t bytes, bool token, bool with_child = false) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::setpgid(0, 0);  // so that the test can end its child too
      auto segment = DeviceSegment::open(config_);
      if (!segment.ok() || !(*segment)->reserve(bytes)) ::_exit(1);
      if (token) (*segment)->acquire_token(0);
      // The grandchild does as the driver's fork handler, and only then is all ready.
      const bool speaks = !with_child || ::fork() == 0;
      if (with_child && speaks) (*segment)->abandon_after_fork();
      if (speaks && ::write(ready[1], "r", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char got = 0;
    EXPECT_EQ(::read(ready[0], &got, 1), 1);
    ::close(ready[0]);
    return child;
  }
  static void kill_hard(pid_t child) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }

  DeviceConfig config_;
};

TEST_F(DeviceSegmentTest, TheFirstDecidesWhatTheDeviceIs) {
  const auto first = open();
  config_.memory_bytes = 999 * kMiB;
  config_.sms = 7;
  const auto second = open();
  EXPECT_EQ(second->memory_bytes(), 64 * kMiB);
  EXPECT_EQ(second->sms(), 2u);
}

TEST_F(DeviceSegmentTest, OneLedgerForAll) {
  const auto first = open();
  auto second = open();
  EXPECT_TRUE(first->reserve(40 * kMiB));
  EXPECT_TRUE(second->reserve(24 * kMiB));
  EXPECT_FALSE(first->reserve(1));
  EXPECT_FALSE(second->reserve(UINT64_MAX));
  EXPECT_EQ(first->used_bytes(), 64 * kMiB);
  second.reset();  // gives back what it held
  EXPECT_EQ(first->used_bytes(), 40 * kMiB);
  first->release(40 * kMiB);
  EXPECT_EQ(first->used_bytes(), 0u);
}

TEST_F(DeviceSegmentTest, AKilledOwnersMemoryComesBack) {
  const auto survivor = open();
  const pid_t child = start_holder(50 * kMiB, false);
  EXPECT_EQ(survivor->used_bytes(), 50 * kMiB);
  EXPECT_FALSE(survivor->reserve(20 * kMiB));
  kill_hard(child);
  EXPECT_TRUE(survivor->reserve(60 * kMiB)) << "refused because of a dead process";
  EXPECT_EQ(survivor->used_bytes(), 60 * kMiB);
}

TEST_F(DeviceSegmentTest, AForkedChildKeepsNothingAlive) {
  const auto survivor = open();
  const pid_t child = start_holder(50 * kMiB, true, true);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(survivor->used_bytes(), 0u);
  EXPECT_TRUE(survivor->reserve(64 * kMiB));
  ::kill(-child, SIGKILL);
}

TEST_F(DeviceSegmentTest, AKilledOwnersTokenComesBack) {
  config_.sms = 1;
  const auto survivor = open();
  const pid_t child = start_holder(0, true);
  std::thread waiter([&] { survivor->release_token(survivor->acquire_token(0)); });
  kill_hard(child);
  waiter.join();  // hangs when the token stays with the dead
  EXPECT_EQ(survivor->used_bytes(), 0u);
}

TEST_F(DeviceSegmentTest, SlotsOfTheDeadAreUsedAgain) {
  const auto survivor = open();
  for (uint32_t round = 0; round < 8; ++round) kill_hard(start_holder(kMiB, true));
  std::vector<std::unique_ptr<DeviceSegment>> all;
  for (uint32_t i = 1; i < kOwnersMax; ++i) {
    all.push_back(open());
    ASSERT_NE(all.back(), nullptr) << i;
  }
  EXPECT_FALSE(DeviceSegment::open(config_).ok()) << "more owners than slots";
  EXPECT_EQ(survivor->used_bytes(), 0u);
}

TEST_F(DeviceSegmentTest, NeverMoreHoldersThanTokens) {
  std::atomic<int> holding{0};
  std::atomic<int> most{0};
  std::vector<std::unique_ptr<DeviceSegment>> owners;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) owners.push_back(open());
  for (uint32_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 2000; ++round) {
        const uint32_t token = owners[i]->acquire_token(i);
        const int now = holding.fetch_add(1) + 1;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        holding.fetch_sub(1);
        owners[i]->release_token(token);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 2);
  EXPECT_GE(most.load(), 1);
}

TEST_F(DeviceSegmentTest, AFileOfAnotherKindIsRefused) {
  std::FILE* file = std::fopen(config_.segment_path.c_str(), "w");
  const std::vector<char> bytes(sizeof(SegmentLayout), 'x');
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
  const auto segment = DeviceSegment::open(config_);
  ASSERT_FALSE(segment.ok());
  EXPECT_EQ(segment.status().code(), StatusCode::kMismatch);
}

}  // namespace
}  // namespace vgpu::softgpu
