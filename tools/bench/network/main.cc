// vgpu bench network: what a channel between hosts costs, beside libfabric itself in the same run.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mapping.h"
#include "base/stream_copy.h"
#include "protocol/wire/encoder.h"
#include "tools/bench/network/peers.h"

namespace vgpu::bench {
namespace {

constexpr int kTimeoutMs = 20'000;
constexpr uint64_t kPiece = 256 * 1024;
constexpr uint64_t kRecordBody = 80;  // with its header about a launch without parameters

struct Row {
  std::string what, aim;
  double ours = 0, raw = 0;
  std::string unit;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double seconds_since(uint64_t start) { return static_cast<double>(monotonic_ns() - start) / 1e9; }

// --- raw
// -------------------------------------------------------------------------------------------
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
                                         {memory_.bytes(), memory_.bytes()}, kTimeoutMs);
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

  // Bytes per second of writes of 1 MiB, eight on their way.
  double stream_up(uint64_t bytes) {
    const uint64_t start = monotonic_ns();
    const uint64_t first = counter_.writes;
    for (uint64_t i = 0; i < bytes / net::kWriteBytesMax; ++i) {
      while (i - (counter_.writes - first) >= 8) poll();
      const uint64_t place = i % (memory_.size() / net::kWriteBytesMax) * net::kWriteBytesMax;
      while (link_->write(memory_.bytes().subspan(place, net::kWriteBytesMax), place, 1) !=
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
};

// --- ours
// ------------------------------------------------------------------------------------------
class Ours {
 public:
  Ours(const net::FabricTarget& target, const protocol::ChannelSizes& sizes) {
    auto transport = net::connect_fabric(target, sizes, kTimeoutMs);
    if (!transport.ok()) die(transport.status().to_string());
    auto channel = protocol::GuestChannel::open(std::move(*transport));
    if (!channel.ok()) die(channel.status().to_string());
    channel_ = std::move(*channel);
  }

  double call_ns(int rounds) {
    std::vector<double> times;
    for (int i = 0; i < rounds; ++i) {
      const uint64_t start = monotonic_ns();
      call(kAnswer, {}, {});
      times.push_back(static_cast<double>(monotonic_ns() - start));
    }
    return median(times);
  }

  double records_per_s(uint64_t records) {
    const uint64_t start = monotonic_ns();
    for (uint64_t i = 0; i < records; ++i) post(kDrop, {}, protocol::kNoReply);
    call(kAnswer, {}, {});
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
    call(kAnswer, {}, {});
    return static_cast<double>(bytes) / seconds_since(start);
  }

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
      stream_copy(to.data() + flight.done % to.size(),
                  channel_->down_slab().data() + flight.piece.offset, kPiece);
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
  void call(WorkerOp op, const CopyArgs& args, std::span<std::byte> /*unused*/) {
    const uint32_t slot = channel_->replies().acquire();
    post(op, args, slot);
    wait(slot);
  }
  std::unique_ptr<protocol::GuestChannel> channel_;
};

std::string table(const std::vector<Row>& rows) {
  std::string text;
  char line[200];
  std::snprintf(line, sizeof(line), "%-44s %12s %12s %8s  %s\n", "", "ours", "libfabric", "ratio",
                "aim");
  text += line;
  for (const Row& row : rows) {
    if (row.raw != 0) {
      std::snprintf(line, sizeof(line), "%-44s %9.2f %-5s %6.2f %-5s %5.2f  %s\n", row.what.c_str(),
                    row.ours, row.unit.c_str(), row.raw, row.unit.c_str(), row.ours / row.raw,
                    row.aim.c_str());
    } else {
      std::snprintf(line, sizeof(line), "%-44s %9.2f %-5s %12s %5s  %s\n", row.what.c_str(),
                    row.ours, row.unit.c_str(), "", "", row.aim.c_str());
    }
    text += line;
  }
  return text;
}

uint64_t own_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void measure_idle(const Session& session, int ms, std::vector<Row>* rows) {
  ::poll(nullptr, 0, 200);  // everybody goes to sleep
  const uint64_t guest = own_cpu_ns(), gate = session.gate.cpu_ns();
  const uint64_t worker = session.worker.cpu_ns();
  ::poll(nullptr, 0, ms);
  const auto percent = [&](uint64_t ns) { return static_cast<double>(ns) / (ms * 1e4); };
  rows->push_back({"idle guest, CPU", "0 %", percent(own_cpu_ns() - guest), 0, "%"});
  rows->push_back({"idle gate, CPU", "0 %", percent(session.gate.cpu_ns() - gate), 0, "%"});
  rows->push_back({"idle worker, CPU", "0 %", percent(session.worker.cpu_ns() - worker), 0, "%"});
}

int run(bool quick, const std::string& json) {
  const net::Provider provider;
  net::Secret secret{};
  if (::getrandom(secret.data(), secret.size(), 0) < 0) die("getrandom");
  const protocol::ChannelSizes sizes;
  const RawServer raw_server = start_raw(provider, secret);
  const Session session = start_session(provider, secret, sizes);
  const int rounds = quick ? 2000 : 20'000;
  const uint64_t bytes = uint64_t{quick ? 256u : 1024u} << 20;
  std::vector<std::byte> data(32 << 20, std::byte{3});
  std::vector<Row> rows;
  // In turns, so that whatever else the machine does hits both.
  Ours ours({provider, session.address, "", secret}, sizes);
  Raw raw(provider, secret, raw_server);
  (void)ours.call_ns(rounds / 10);
  (void)raw.ping_pong_ns(rounds / 10);
  rows.push_back({"synchronous call, 64 bytes each way", "<= 1.3", ours.call_ns(rounds) / 1e3,
                  raw.ping_pong_ns(rounds) / 1e3, "us"});
  const uint64_t records = quick ? 500'000 : 4'000'000;
  rows.push_back(
      {"launches (records of 96 bytes)", ">= 2 M/s", ours.records_per_s(records) / 1e6, 0, "M/s"});
  (void)ours.copy_up(data, bytes / 8);
  (void)raw.stream_up(bytes / 8);
  rows.push_back({"copy to device, of what lies in the slab", ">= 0.95",
                  ours.copy_up({}, bytes) / 1e9, raw.stream_up(bytes) / 1e9, "GB/s"});
  rows.push_back({"copy to device, of pageable memory", ">= 0.70", ours.copy_up(data, bytes) / 1e9,
                  raw.stream_up(bytes) / 1e9, "GB/s"});
  (void)ours.copy_down(data, bytes / 8);
  rows.push_back({"copy from device", ">= 0.70", ours.copy_down(data, bytes) / 1e9,
                  raw.stream_down(bytes) / 1e9, "GB/s"});
  measure_idle(session, quick ? 1000 : 3000, &rows);
  std::printf("%s", table(rows).c_str());
  if (json.empty()) return 0;
  std::ofstream file(json);
  file << "[";
  for (size_t i = 0; i < rows.size(); ++i) {
    file << (i == 0 ? "" : ",") << "\n  {\"what\": \"" << rows[i].what
         << "\", \"ours\": " << rows[i].ours << ", \"raw\": " << rows[i].raw << ", \"unit\": \""
         << rows[i].unit << "\", \"aim\": \"" << rows[i].aim << "\"}";
  }
  file << "\n]\n";
  return file.good() ? 0 : 1;
}

}  // namespace
}  // namespace vgpu::bench

int main(int argc, char** argv) {
  bool quick = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: vgpu-bench-network [--quick] [--json FILE]\n");
      return 2;
    }
  }
  const int code = vgpu::bench::run(quick, json);
  std::fflush(nullptr);
  // The transport has threads; the peers are ended by their own destructors, which have run.
  _exit(code);
}
