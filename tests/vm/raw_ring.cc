// What a ring alone costs between a virtual machine and its host: no commands, no server.
// SPDX-License-Identifier: Apache-2.0
//
// The host's side takes records and answers; the machine's side measures.
//   vgpu_vm_raw host REGION-FILE | guest REGION-ADDRESS
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.h"
#include "protocol/mailbox/layout.h"
#include "protocol/session/channel.h"
#include "protocol/wire/encoder.h"
#include "vm/region_file.h"

namespace vgpu {
namespace {

constexpr int kRecords = 200'000, kTrips = 2'000, kIdleTrips = 100, kIdleMs = 2;
constexpr uint16_t kEnd = 2;

struct Args {
  uint64_t words[10];  // with its header 96 bytes, as a launch has
};

// The region's last piece, which nobody else uses as long as few programs run.
Result<std::unique_ptr<protocol::Transport>> open_piece(protocol::Role role,
                                                        const std::string& address) {
  Result<vm::RegionFile> region = vm::open_region(address);
  if (!region.ok()) return region.status();
  Result<Mapping> control =
      Mapping::map_shared(region->memory.get(), protocol::kRegionControlBytes);
  if (!control.ok()) return control.status();
  const auto* header = reinterpret_cast<const protocol::RegionHeader*>(control->data());
  const protocol::RegionCut cut{header->identity.region_bytes, header->identity.pieces,
                                header->identity.piece_bytes};
  const bool host = role == protocol::Role::kWorker;
  protocol::BellParts parts;
  parts.bell =
      host ? protocol::Bell::of_worker(false, -1) : protocol::Bell::of_guest(nullptr, nullptr, 0);
  return protocol::make_region(role, UniqueFd(), region->memory.get(),
                               cut.offset_of(cut.pieces - 1),
                               protocol::ChannelSizes::fitting(cut.piece_bytes), std::move(parts));
}

int fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return 1;
}

int serve(const std::string& address) {
  auto transport = open_piece(protocol::Role::kWorker, address);
  if (!transport.ok()) return fail(transport.status());
  auto channel = protocol::WorkerChannel::create(std::move(transport).value());
  if (!channel.ok()) return fail(channel.status());
  std::printf("ready\n");
  std::fflush(stdout);
  protocol::Consumer& consumer = (*channel)->consumer();
  protocol::Record record;
  while (true) {
    const protocol::PeekResult result = consumer.peek(&record);
    if (result == protocol::PeekResult::kMalformed) return fail(consumer.error());
    if (result == protocol::PeekResult::kEmpty) {
      (void)consumer.wait();
      continue;
    }
    const bool end = record.header.op == kEnd;
    (*channel)->replies().complete(record.header.reply, 0);
    consumer.release();
    if (end) return 0;
  }
}

// Nanoseconds of one call that is answered; the median of many.
double trip_ns(protocol::GuestChannel* channel, uint32_t slot, int trips, int idle_ms) {
  std::vector<uint64_t> times;
  for (int i = 0; i < trips; ++i) {
    if (idle_ms != 0) (void)::poll(nullptr, 0, idle_ms);
    const uint64_t start = monotonic_ns();
    protocol::Reply reply;
    (void)protocol::write_record(&channel->producer(), 1, Args{}, {}, slot);
    (void)channel->replies().wait(slot, &reply);
    times.push_back(monotonic_ns() - start);
  }
  std::nth_element(times.begin(), times.begin() + trips / 2, times.end());
  return static_cast<double>(times[static_cast<size_t>(trips / 2)]);
}

int measure(const std::string& address) {
  auto transport = open_piece(protocol::Role::kGuest, address);
  if (!transport.ok()) return fail(transport.status());
  auto opened = protocol::GuestChannel::open(std::move(transport).value());
  if (!opened.ok()) return fail(opened.status());
  protocol::GuestChannel* channel = opened->get();
  const uint32_t slot = channel->replies().acquire();
  const uint64_t start = monotonic_ns();
  for (int i = 0; i < kRecords; ++i) (void)protocol::write_record(&channel->producer(), 1, Args{});
  (void)trip_ns(channel, slot, 1, 0);
  const double seconds = static_cast<double>(monotonic_ns() - start) / 1e9;
  const double busy = trip_ns(channel, slot, kTrips, 0);
  const double idle = trip_ns(channel, slot, kIdleTrips, kIdleMs);
  std::printf(
      "{\"raw_records_per_s\": %.0f, \"raw_trip_busy_ns\": %.0f, "
      "\"raw_trip_idle_ns\": %.0f}\n",
      kRecords / seconds, busy, idle);
  (void)protocol::write_record(&channel->producer(), kEnd, Args{}, {}, slot);
  protocol::Reply reply;
  (void)channel->replies().wait(slot, &reply);
  return 0;
}

}  // namespace
}  // namespace vgpu

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "host") == 0)
    return vgpu::serve(std::string("ivshmem:") + argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "guest") == 0) return vgpu::measure(argv[2]);
  std::fprintf(stderr, "usage: %s host REGION-FILE | guest REGION-ADDRESS\n", argv[0]);
  return 2;
}
