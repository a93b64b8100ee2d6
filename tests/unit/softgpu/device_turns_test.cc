// Blocks that compute without ever waiting give their SM to others, and end when they are told to.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "device_grid_support.h"

namespace vgpu::softgpu {
namespace {

// Computes for as long as nobody asks for attention, as compiled loops do.
int compute(WarpContext* c) {
  Board& board = board_of(c);
  if (c->resume == 0) board.started.fetch_add(1);
  ++c->resume;
  const uint32_t tag = tag_of(c);
  if (tag != 0) {
    std::lock_guard<std::mutex> lock(board.mutex);
    board.order.push_back(tag);
  }
  while (__atomic_load_n(c->attention, __ATOMIC_RELAXED) == 0 && board.gate.load() == 0) {
  }
  return board.gate.load() != 0 ? kWarpFinished : kWarpYielded;
}

using TurnsTest = GridTest;

TEST_F(TurnsTest, ALongBlockLetsAnotherStreamsGridRunOnItsSm) {
  make_device(1);
  const auto longer = open(false), other = open(false);
  const uint64_t last = launch(longer, compute, {2, 1, 1});
  wait_started(1);
  management().wait_for(*other, launch(other, note_block, {300, 1, 1}));  // hangs without turns
  EXPECT_EQ(board_->order.size(), 300u);
  EXPECT_LT(longer->completed.load(), last);
  board_->gate.store(1);
  management().wait_for(*longer, last);
}

TEST_F(TurnsTest, LongBlocksOfSeveralGridsTakeTurns) {
  make_device(1);
  const std::shared_ptr<StreamQueue> streams[3] = {open(false), open(false),
                                                   open(false, false, -1)};
  for (uint32_t i = 0; i < 3; ++i) launch(streams[i], compute, {1, 1, 1}, i + 1);
  const auto turns = [&](uint32_t tag) {
    std::lock_guard<std::mutex> lock(board_->mutex);
    return std::count(board_->order.begin(), board_->order.end(), tag);
  };
  while (turns(1) < 3 || turns(2) < 3 || turns(3) < 3) std::this_thread::yield();
  board_->gate.store(1);
  management().wait_for_all(*channel_);
}

TEST_F(TurnsTest, WhatIsMoreUrgentInterruptsAtOnceAndRunsToItsEnd) {
  make_device(1);
  const auto plain = open(false), urgent = open(false, false, -5);
  const uint64_t last = launch(plain, compute, {1, 1, 1}, 7);
  wait_started(1);
  management().wait_for(*urgent, launch(urgent, note_block, {500, 1, 1}, 1000));
  {
    // Not one turn of the plain one between the urgent blocks.
    std::lock_guard<std::mutex> lock(board_->mutex);
    const auto first = std::find(board_->order.begin(), board_->order.end(), 1000u);
    ASSERT_LE(first + 500, board_->order.end());
    EXPECT_EQ(std::count(first, first + 500, 7u), 0);
  }
  board_->gate.store(1);
  management().wait_for(*plain, last);
}

TEST_F(TurnsTest, BlocksOfOneGridDoNotPileUp) {
  make_device(1);
  const auto stream = open(false), other = open(false);
  const uint64_t last = launch(stream, compute, {40, 1, 1});
  wait_started(1);
  for (uint32_t i = 0; i < 5; ++i)
    management().wait_for(*other, launch(other, note_block, {1, 1, 1}));
  EXPECT_EQ(board_->started.load(), 1u) << "an interrupted block made room for its own grid";
  board_->gate.store(1);
  management().wait_for(*stream, last);
}

TEST_F(TurnsTest, EndlessBlocksEndWithTheirContext) {
  make_device(2);
  const auto stream = open(false);
  const uint64_t last = launch(stream, compute, {100, 1, 1});
  wait_started(2);
  management().fail(channel_, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  management().wait_for(*stream, last);  // hangs when they do not leave
  EXPECT_LT(board_->started.load(), 100u) << "blocks of an ended grid were started";
}

TEST_F(TurnsTest, EndlessBlocksMeetTheTimeOut) {
  make_device(2, false, 50);
  const auto stream = open(false);
  management().wait_for(*stream, launch(stream, compute, {2, 1, 1}));
  EXPECT_EQ(channel_->sticky(), CUDA_ERROR_LAUNCH_TIMEOUT);
}

}  // namespace
}  // namespace vgpu::softgpu
