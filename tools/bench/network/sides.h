// What is compared: libfabric alone, and a guest's channel on it.
// SPDX-License-Identifier: Apache-2.0
#ifndef VGPU_TOOLS_BENCH_NETWORK_SIDES_H_
#define VGPU_TOOLS_BENCH_NETWORK_SIDES_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mapping.h"
#include "base/stream_copy.h"
#include "protocol/wire/encoder.h"
#include "tools/bench/network/peers.h"

namespace vgpu::bench {

inline constexpr int kConnectTimeoutMs = 20'000;
inline constexpr uint64_t kPiece = 256 * 1024;
inline constexpr uint64_t kRecordBody = 80;  // with its header about a launch without parameters
inline constexpr uint64_t kRecordBytes = 96;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

inline double seconds_since(uint64_t start) {
  return static_cast<double>(monotonic_ns() - start) / 1e9;
}

class Counter final : public net::LinkSink {
 public:
  bool received(std::span<const std::byte> /*message*/) override {
    ++messages;
    return true;
  }
  void written(uint64_t /*token*/) override { ++writes; }
  uint64_t messages = 0, writes = 0;
};

class Raw {
 public:
  Raw(const net::Provider& provider, const net::Secret& secret, const RawServer& server) {
    Result<Mapping> mapped = Mapping::map_private(kRawWindowBytes);
    if (!mapped.ok()) die("no memory");
    memory_ = std::move(*mapped);
    std::memset(memory_.data(), 1, memory_.size());
    auto link = net::FabricLink::connect(provider, server.address, {secret},
                                         {memory_.bytes(), memory_.bytes()}, kConnectTimeoutMs);
    if (!link.ok()) die(link.status().to_string());
    link_ = std::move(*link);
  }

  // Nanoseconds of one exchange of 64 bytes, both sides polling all the time.
  double ping_pong_ns(int rounds) {
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const uint64_t start = monotonic_ns();
      say(kEcho, 0);
      wait_messages(counter_.messages + 1);
      times.push_back(static_cast<double>(monotonic_ns() - start));
    }
    return median(times);
  }

  // Bytes per second of writes of this size, eight on their way.
  double stream_up(uint64_t bytes, uint64_t write_bytes = net::kWriteBytesMax) {
    const uint64_t start = monotonic_ns();
    const uint64_t first = counter_.writes;
    for (uint64_t i = 0; i < bytes / write_bytes; ++i) {
      while (i - (counter_.writes - first) >= 8) poll();
      const uint64_t place = next_++ % (memory_.size() / write_bytes) * write_bytes;
      while (link_->write(memory_.bytes().subspan(place, write_bytes), place, 1) !=
             net::Sent::kDone)
        poll();
    }
    const uint64_t answer = counter_.messages + 1;
    say(kStreamEnd, 0);
    wait_messages(answer);
    return static_cast<double>(bytes) / seconds_since(start);
  }

  double stream_down(uint64_t bytes) {
    const uint64_t start = monotonic_ns();
    const uint64_t answer = counter_.messages + 1;
    say(kStreamDown, bytes);
    wait_messages(answer);
    return static_cast<double>(bytes) / seconds_since(start);
  }

 private:
  void poll() {
    if (link_->poll(&counter_) < 0) die("the raw peer is gone");
  }
  void say(uint64_t op, uint64_t bytes) {
    const uint64_t words[8] = {op, bytes};
    while (link_->send(std::as_bytes(std::span(words))) == net::Sent::kFull) poll();
  }
  void wait_messages(uint64_t count) {
    while (counter_.messages < count) poll();
  }
  Mapping memory_;
  std::unique_ptr<net::FabricLink> link_;
  Counter counter_;
  uint64_t next_ = 0;  // write; as the peer's, they go round the window
};

class Ours {
 public:
  Ours(const net::FabricTarget& target, const protocol::ChannelSizes& sizes) {
    auto transport = net::connect_fabric(target, sizes, kConnectTimeoutMs);
    if (!transport.ok()) die(transport.status().to_string());
    auto channel = protocol::GuestChannel::open(std::move(*transport));
    if (!channel.ok()) die(channel.status().to_string());
    channel_ = std::move(*channel);
  }

  double call_ns(int rounds) {
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const uint64_t start = monotonic_ns();
      call(kAnswer);
      times.push_back(static_cast<double>(monotonic_ns() - start));
    }
    return median(times);
  }

  double records_per_s(uint64_t records) {
    const uint64_t start = monotonic_ns();
    for (uint64_t i = 0; i < records; ++i) post(kDrop, {}, protocol::kNoReply);
    call(kAnswer);
    return static_cast<double>(records) / seconds_since(start);
  }

  // As the shim copies from memory of the program's; from nowhere: what lies in the slab, which is
  // registered.
  double copy_up(std::span<const std::byte> from, uint64_t bytes) {
    const uint64_t start = monotonic_ns();
    for (uint64_t done = 0; done < bytes; done += kPiece) {
      const protocol::Staging::Piece piece = channel_->allocate_up(kPiece);
      if (!piece.ok()) die("the session is gone");
      std::span<const std::byte> part = channel_->up_slab().subspan(piece.offset, kPiece);
      if (!from.empty()) part = from.subspan(done % from.size(), kPiece);
      channel_->mover()->stage(piece.offset, part);
      std::lock_guard lock(channel_->lock());
      const uint64_t number = write(kCopyUp, {piece.offset, kPiece, done, 0}, protocol::kNoReply);
      channel_->bind_up(piece, number);
    }
    call(kAnswer);
    return static_cast<double>(bytes) / seconds_since(start);
  }

  // To nowhere: until it lies in the slab.
  double copy_down(std::span<std::byte> to, uint64_t bytes) {
    struct Flight {
      uint32_t slot;
      protocol::Staging::Piece piece;
      uint64_t done;
    };
    std::vector<Flight> flights;
    const auto finish = [&] {
      const Flight flight = flights.front();
      flights.erase(flights.begin());
      wait(flight.slot);
      if (!to.empty()) {
        stream_copy(to.data() + flight.done % to.size(),
                    channel_->down_slab().data() + flight.piece.offset, kPiece);
      }
      channel_->release_down(flight.piece);
    };
    const uint64_t start = monotonic_ns();
    for (uint64_t done = 0; done < bytes; done += kPiece) {
      if (flights.size() == 8) finish();
      const Flight flight{channel_->replies().acquire(), channel_->allocate_down(kPiece, true),
                          done};
      post(kCopyDown, {flight.piece.offset, kPiece, done, 0}, flight.slot, flight.piece.offset,
           kPiece);
      flights.push_back(flight);
    }
    while (!flights.empty()) finish();
    return static_cast<double>(bytes) / seconds_since(start);
  }

 private:
  uint64_t write(WorkerOp op, const CopyArgs& args, uint32_t slot) {
    struct {
      CopyArgs args;
      std::byte rest[kRecordBody - sizeof(CopyArgs)];
    } body{args, {}};
    return protocol::write_record(&channel_->producer(), op, body, {}, slot);
  }
  void post(WorkerOp op, const CopyArgs& args, uint32_t slot, uint64_t offset = 0,
            uint64_t bytes = 0) {
    std::lock_guard lock(channel_->lock());
    if (slot != protocol::kNoReply) channel_->mover()->expect(slot, offset, bytes);
    if (write(op, args, slot) == 0) die("the session is gone");
  }
  void wait(uint32_t slot) {
    protocol::Reply reply;
    if (channel_->replies().wait(slot, &reply) != protocol::WaitResult::kReady)
      die("the session is gone");
    channel_->replies().release(slot);
  }
  void call(WorkerOp op) {
    const uint32_t slot = channel_->replies().acquire();
    post(op, {}, slot);
    wait(slot);
  }
  std::unique_ptr<protocol::GuestChannel> channel_;
};

}  // namespace vgpu::bench

#endif  // VGPU_TOOLS_BENCH_NETWORK_SIDES_H_
