// Streams, events, grids and SMs, with hand-written warps in place of compiled ones.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <thread>

#include "device_grid_support.h"

namespace vgpu::softgpu {
namespace {

TEST_F(GridTest, AKernelThatTakesTooLongIsStopped) {
  make_device(2, false, 50);
  const auto stream = open(false);
  launch(stream, note_block, {3, 1, 1});
  EXPECT_EQ(channel_->sticky(), CUDA_SUCCESS);
  const uint64_t last = launch(stream, wait_for_gate, {2, 1, 1});  // the gate never opens
  management().wait_for(*stream, last);
  EXPECT_EQ(channel_->sticky(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

// Waiting for others is not running: only the time since the first block counts.
TEST_F(GridTest, TheTimeOutDoesNotCountWaiting) {
  make_device(1, false, 200);
  const auto first = open(false), second = open(false);
  launch(first, wait_for_gate, {1, 1, 1});
  wait_started(1);
  const auto wait = record(first);
  auto waiting = std::make_unique<Command>();
  waiting->waits.push_back(wait);
  management().submit(second, std::move(waiting));
  const uint64_t last = launch(second, note_block, {1, 1, 1});
  const uint64_t until = monotonic_ns() + 100'000'000;
  while (monotonic_ns() < until) std::this_thread::yield();
  board_->gate = 1;
  management().wait_for(*second, last);
  EXPECT_EQ(channel_->sticky(), CUDA_SUCCESS);
}

// A command may wait for what is no command: code that is being compiled.
TEST_F(GridTest, AStreamWaitsForAPointAndOthersGoOn) {
  make_device(1);
  const auto waiting = open(false), other = open(false);
  auto point = std::make_shared<EventPoint>();
  auto command = std::make_unique<Command>();
  command->waits.push_back(point);
  management().submit(waiting, std::move(command));
  const uint64_t last = launch(waiting, note_block, {1, 1, 1}, 100);
  management().wait_for(*other, launch(other, note_block, {1, 1, 1}, 200));
  ASSERT_EQ(board_->order, std::vector<uint32_t>{200});
  management().reach(*point);
  management().wait_for(*waiting, last);
  EXPECT_EQ(board_->order, (std::vector<uint32_t>{200, 100}));
}

TEST_F(GridTest, EveryBlockOnceAndInLinearOrderOnOneSm) {
  make_device(1);
  const auto stream = open(false);
  management().wait_for(*stream, launch(stream, note_block, {7, 5, 3}));
  ASSERT_EQ(board_->order.size(), 105u);
  for (uint32_t i = 0; i < 105; ++i) EXPECT_EQ(board_->order[i], i);
}

TEST_F(GridTest, EveryBlockOnceOnManySms) {
  make_device(4);
  const auto stream = open(false);
  management().wait_for(*stream, launch(stream, note_block, {5000, 1, 1}));
  EXPECT_EQ(board_->order.size(), 5000u);
  EXPECT_EQ(std::set<uint32_t>(board_->order.begin(), board_->order.end()).size(), 5000u);
}

TEST_F(GridTest, AStreamKeepsItsOrder) {
  make_device(4);
  const auto stream = open(false);
  for (uint32_t i = 0; i < 2000; ++i) launch(stream, note_block, {1, 1, 1}, i);
  management().wait_for_all(*channel_);
  ASSERT_EQ(board_->order.size(), 2000u);
  for (uint32_t i = 0; i < 2000; ++i) ASSERT_EQ(board_->order[i], i);
}

TEST_F(GridTest, ASpinningGridLetsOthersRunOnItsSm) {
  make_device(1);
  const auto spinning = open(false);
  const auto other = open(false);
  const uint64_t spin = launch(spinning, wait_for_gate, {3, 1, 1});
  wait_started(1);
  management().wait_for(*other, launch(other, note_block, {4, 1, 1}));  // hangs without rotation
  EXPECT_LT(spinning->completed.load(), spin);
  board_->gate.store(1);
  management().wait_for(*spinning, spin);
}

TEST_F(GridTest, BlocksThatWaitForEachOtherAllBecomeResident) {
  make_device(2);
  const auto stream = open(false);
  management().wait_for(*stream, launch(stream, meet, {48, 1, 1}));  // 24 per SM
  EXPECT_EQ(board_->arrived.load(), 48u);
}

TEST_F(GridTest, LegacyStreamWaitsForBlockingOnesOnly) {
  make_device(2);
  const auto blocking = open(true);
  const auto free_running = open(false);
  launch(free_running, wait_for_gate, {1, 1, 1});
  launch(blocking, note_block, {1, 1, 1}, 1);
  launch(legacy_, note_block, {1, 1, 1}, 2);
  const uint64_t last = launch(blocking, note_block, {1, 1, 1}, 3);
  management().wait_for(*blocking, last);
  EXPECT_EQ(board_->order, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_FALSE(free_running->idle());
  board_->gate.store(1);
  management().wait_for_all(*channel_);
}

TEST_F(GridTest, LegacyStreamWaitsForAClosedStreamToo) {
  make_device(2);
  auto blocking = open(true);
  launch(blocking, wait_for_gate, {1, 1, 1});
  management().close_queue(blocking);
  const uint64_t last = launch(legacy_, note_block, {1, 1, 1});
  wait_started(1);
  EXPECT_LT(legacy_->completed.load(), last);
  board_->gate.store(1);
  management().wait_for(*legacy_, last);
}

TEST_F(GridTest, EventsHoldOtherStreamsBack) {
  make_device(2);
  const auto first = open(false);
  const auto second = open(false);
  launch(first, wait_for_gate, {1, 1, 1});
  const auto point = record(first);
  auto wait = std::make_unique<Command>();
  wait->waits.push_back(point);
  management().submit(second, std::move(wait));
  const uint64_t after = launch(second, note_block, {1, 1, 1});
  wait_started(1);
  EXPECT_EQ(point->reached.load(), 0u);
  EXPECT_LT(second->completed.load(), after);
  board_->gate.store(1);
  management().wait_for(*second, after);
  EXPECT_EQ(point->reached.load(), 1u);
}

TEST_F(GridTest, MoreUrgentGridsGoFirst) {
  make_device(1);
  const auto gate = open(false);
  const auto plain = open(false, false, 0);
  const auto urgent = open(false, false, -5);
  // While one host function holds both streams back, the urgent grid is submitted last.
  std::atomic<int> release{0};
  auto command = std::make_unique<Command>();
  command->kind = CommandKind::kHost;
  command->work = [&release] { release.wait(0); };
  management().submit(gate, std::move(command));
  const auto point = record(gate);
  for (const auto& queue : {plain, urgent}) {
    auto wait = std::make_unique<Command>();
    wait->waits.push_back(point);
    management().submit(queue, std::move(wait));
  }
  launch(plain, note_block, {200, 1, 1}, 1000);
  launch(urgent, note_block, {1, 1, 1}, 5);
  release.store(1);
  release.notify_all();
  management().wait_for_all(*channel_);
  const auto place = std::find(board_->order.begin(), board_->order.end(), 5u);
  ASSERT_NE(place, board_->order.end());
  // The plain grid may have begun; at most what its SM had taken comes before.
  EXPECT_LE(place - board_->order.begin(), static_cast<ptrdiff_t>(kChunkBlocksMax));
}

TEST_F(GridTest, AFaultEndsItsChannelAndNoOther) {
  make_device(2);
  const auto stream = open(false);
  launch(stream, trap, {1000, 1, 1});
  const uint64_t after = launch(stream, note_block, {10, 1, 1}, 50);
  management().wait_for(*stream, after);
  EXPECT_EQ(channel_->sticky(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(board_->order.empty()) << "work behind a fault ran";
  Channel* const other = kept(std::make_unique<Channel>());
  management().open_queue(other, true, true, 0);
  const auto healthy = management().open_queue(other, false, false, 0);
  management().wait_for(*healthy, launch(healthy, note_block, {1, 1, 1}));
  EXPECT_EQ(other->sticky(), CUDA_SUCCESS);
  EXPECT_EQ(board_->order.size(), 1u);
}

TEST_F(GridTest, StoppingEndsGridsThatNeverWould) {
  make_device(2);
  const auto stream = open(false);
  const uint64_t endless = launch(stream, wait_for_gate, {500, 1, 1});
  wait_started(1);
  management().fail(channel_, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  management().wait_for(*stream, endless);  // hangs when blocks do not leave
}

TEST_F(GridTest, AFullQueueBlocksTheCaller) {
  make_device(1, true);
  const auto stream = open(false);
  launch(stream, wait_for_gate, {1, 1, 1});
  std::atomic<uint32_t> submitted{0};
  std::thread caller([&] {
    for (uint32_t i = 0; i < 2 * kLaunchDepthContrary; ++i) {
      launch(stream, note_block, {1, 1, 1}, i);
      submitted.fetch_add(1);
    }
  });
  wait_started(1);
  while (submitted.load() < kLaunchDepthContrary - 1) std::this_thread::yield();
  EXPECT_EQ(stream->submitted.load(), kLaunchDepthContrary);
  board_->gate.store(1);
  caller.join();
  management().wait_for_all(*channel_);
  EXPECT_EQ(board_->order.size(), 2 * kLaunchDepthContrary);
}

TEST_F(GridTest, ManyThreadsManyStreams) {
  make_device(4);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      const auto stream = open(t % 2 == 0);
      for (uint32_t i = 0; i < 200; ++i) {
        launch(i % 10 == 9 ? legacy_ : stream, note_block, {1 + i % 7, 1, 1});
        if (i % 20 == 0) management().wait_for(*record(stream));
      }
      management().wait_for_all(*channel_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint32_t expected = 0;
  for (uint32_t i = 0; i < 200; ++i) expected += 1 + i % 7;
  EXPECT_EQ(board_->order.size(), 8 * expected);
}

}  // namespace
}  // namespace vgpu::softgpu
