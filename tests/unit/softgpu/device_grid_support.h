// A device whose kernels are functions written here, for tests of what runs when.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "softgpu/exec/device.h"
#include "softgpu/exec/warp_context.h"

namespace vgpu::softgpu {

// What the fake kernels share with their test. One warp per block.
struct Board {
  std::mutex mutex;
  std::vector<uint32_t> order;  // numbers of the blocks as they ran
  std::atomic<uint32_t> gate{0};
  std::atomic<uint32_t> started{0};
  std::atomic<uint32_t> arrived{0};
};
inline Board& board_of(WarpContext* c) { return **reinterpret_cast<Board* const*>(c->params); }
inline uint32_t tag_of(WarpContext* c) { return *reinterpret_cast<const uint32_t*>(c->params + 8); }

inline int note_block(WarpContext* c) {
  Board& board = board_of(c);
  std::lock_guard<std::mutex> lock(board.mutex);
  board.order.push_back(tag_of(c) + c->ctaid[0] + c->ctaid[1] * c->nctaid[0] +
                        c->ctaid[2] * c->nctaid[0] * c->nctaid[1]);
  return kWarpFinished;
}

inline int wait_for_gate(WarpContext* c) {
  if (__atomic_load_n(c->attention, __ATOMIC_RELAXED) != 0) return kWarpYielded;
  if (c->resume == 0) {
    c->resume = 1;
    board_of(c).started.fetch_add(1);
  }
  return board_of(c).gate.load() != 0 ? kWarpFinished : kWarpYielded;
}

// As grid.sync(): every block waits until all have arrived.
inline int meet(WarpContext* c) {
  Board& board = board_of(c);
  if (c->resume == 0) {
    c->resume = 1;
    board.arrived.fetch_add(1);
  }
  return board.arrived.load() >= c->nctaid[0] ? kWarpFinished : kWarpYielded;
}

// Kernels outlive their grids: they stay until the program ends.
inline CompiledKernel* keep_kernel() {
  static auto* const mutex = new std::mutex();
  static auto* const kept = new std::deque<CompiledKernel>();
  std::lock_guard<std::mutex> lock(*mutex);
  return &kept->emplace_back();
}

inline int trap(WarpContext*) { return kWarpTrapped; }

// What the device's threads may look at stays until the program ends.
template <typename T>
T* kept(std::unique_ptr<T> object) {
  static auto* const all = new std::deque<std::unique_ptr<T>>();
  return all->emplace_back(std::move(object)).get();
}

class GridTest : public ::testing::Test {
 protected:
  void make_device(uint32_t sms, bool contrary = false, uint64_t timeout_ms = 0) {
    DeviceConfig config = read_device_config();
    config.segment_path.clear();
    config.memory_bytes = 64 << 20;
    config.sms = sms;
    config.contrary = contrary;
    config.launch_timeout_ms = timeout_ms;
    // Its threads never end, so the device never does.
    device_ = kept(std::move(Device::create(std::move(config))).value());
    ASSERT_TRUE(device_->ensure_sms());
    legacy_ = open(true, true);
  }
  GridManagement& management() { return device_->management(); }
  std::shared_ptr<StreamQueue> open(bool blocking, bool legacy = false, int priority = 0) {
    return management().open_queue(channel_, blocking, legacy, priority);
  }

  uint64_t launch(const std::shared_ptr<StreamQueue>& queue, int (*entry)(WarpContext*), Dim3 grid,
                  uint32_t tag = 0, Dim3 cluster = {0, 0, 0}) {
    CompiledKernel* const kernel = keep_kernel();
    kernel->entry = entry;
    kernel->name = "fake";
    auto made = std::make_unique<Grid>();
    made->kernel = kernel;
    made->param_bytes.resize(16);
    Board* board = board_;
    std::memcpy(made->param_bytes.data(), &board, 8);
    std::memcpy(made->param_bytes.data() + 8, &tag, 4);
    made->params.params = made->param_bytes.data();
    made->params.grid = grid;
    made->params.cluster = cluster;
    if (made->params.clustered()) made->unit = made->params.cluster_blocks();
    made->params.stop = &queue->channel->stop;
    made->blocks = uint64_t{grid.x} * grid.y * grid.z;
    made->remaining = made->blocks;
    made->channel = queue->channel;
    made->distributor = &device_->distributor();
    made->priority = queue->priority;
    auto command = std::make_unique<Command>();
    command->kind = CommandKind::kGrid;
    command->grid = std::move(made);
    return management().submit(queue, std::move(command));
  }
  std::shared_ptr<EventPoint> record(const std::shared_ptr<StreamQueue>& queue) {
    auto point = std::make_shared<EventPoint>();
    auto command = std::make_unique<Command>();
    command->record = point;
    management().submit(queue, std::move(command));
    return point;
  }
  void wait_started(uint32_t count) {
    while (board_->started.load() < count) std::this_thread::yield();
  }

  Device* device_ = nullptr;
  // Seen by the device's threads, which never end.
  Channel* const channel_ = kept(std::make_unique<Channel>());
  Board* const board_ = kept(std::make_unique<Board>());
  std::shared_ptr<StreamQueue> legacy_;
};

}  // namespace vgpu::softgpu
