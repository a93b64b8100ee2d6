// A channel in this process for tests: both views over one memory.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TESTS_UNIT_PROTOCOL_TEST_CHANNEL_H_
#define VGPU_TESTS_UNIT_PROTOCOL_TEST_CHANNEL_H_

#include <cstdlib>
#include <memory>
#include <utility>

#include "protocol/session/channel.h"

namespace vgpu::protocol {

inline ChannelSizes small_sizes() { return ChannelSizes{kRingBytesMin, 256 * 1024, 256 * 1024}; }

struct TestChannel {
  explicit TestChannel(SpinMode spin = SpinMode::kAdaptive) {
    Result<LoopPair> pair = make_loop(small_sizes());
    if (!pair.ok()) std::abort();
    memory = pair->worker->memory();
    Result<std::unique_ptr<WorkerChannel>> made =
        WorkerChannel::create(std::move(pair->worker), spin);
    if (!made.ok()) std::abort();
    worker = std::move(made).value();
    Result<std::unique_ptr<GuestChannel>> opened = GuestChannel::open(std::move(pair->guest), spin);
    if (!opened.ok()) std::abort();
    guest = std::move(opened).value();
  }

  ChannelView view() const { return ChannelView(memory.data(), small_sizes()); }

  std::span<std::byte> memory;
  std::unique_ptr<WorkerChannel> worker;
  std::unique_ptr<GuestChannel> guest;
};

}  // namespace vgpu::protocol

#endif  // VGPU_TESTS_UNIT_PROTOCOL_TEST_CHANNEL_H_
