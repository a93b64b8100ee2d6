// A channel in a piece of a region, where nobody can wake by futex.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "protocol/session/handshake.h"
#include "protocol/transport/control_socket.h"
#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

constexpr uint64_t kOffset = 1 << 20;
constexpr int64_t kSecondNs = 1'000'000'000;

struct Ends {
  UniqueFd guest, server;
};

Ends sockets() {
  int both[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) std::abort();
  return {UniqueFd(both[0]), UniqueFd(both[1])};
}

UniqueFd region_of(uint64_t bytes) { return std::move(make_sealed_memory(bytes, "test")).value(); }

struct Both {
  std::unique_ptr<WorkerChannel> worker;
  std::unique_ptr<GuestChannel> guest;
};

// What vgpu-vm, a worker, the agent and the shim do, in one process.
Both attach_through(BellKind bell, int region, int event = -1, std::vector<int> more = {}) {
  Ends ends = sockets();
  Ends offer_ends = sockets();
  RegionOffer offer;
  offer.region.reset(::dup(region));
  if (event >= 0) offer.event.reset(::dup(event));
  offer.offset = kOffset;
  offer.bytes = 2 << 20;
  offer.bell = bell;
  EXPECT_TRUE(send_region_offer(offer_ends.guest.get(), offer).ok());
  HelloReply reply;
  reply.memory_bytes = 1;
  reply.devices.resize(1);
  Result<RegionOffer> taken = take_region(offer_ends.server.get(), &reply, 1000);
  EXPECT_TRUE(taken.ok());
  Both both;
  Result<std::unique_ptr<WorkerChannel>> worker =
      answer_hello_in(std::move(offer_ends.server), reply, std::move(taken).value());
  EXPECT_TRUE(worker.ok());
  both.worker = std::move(worker).value();
  Result<ControlFrame> answer = receive_frame(offer_ends.guest.get(), 1000);
  EXPECT_TRUE(answer.ok());
  more.insert(more.begin(), region);
  EXPECT_TRUE(send_frame(ends.server.get(), answer->bytes, more).ok());
  Hello hello;
  hello.device_ranges = {reply.device_range};
  Attachment attachment = attach_over(std::move(ends.guest), hello, 1000);
  EXPECT_TRUE(attachment.status.ok()) << attachment.status.to_string();
  both.guest = std::move(attachment.channel);
  return both;
}

struct Args {
  uint64_t value;
};

// So many calls that wait for their answers, with naps of the caller between some of them.
void exchange(Both* both, int calls) {
  std::thread worker([&] {
    Record record;
    for (int i = 0; i < calls;) {
      const PeekResult result = both->worker->consumer().peek(&record);
      ASSERT_NE(result, PeekResult::kMalformed);
      if (result == PeekResult::kEmpty) {
        ASSERT_EQ(both->worker->consumer().wait(20 * kSecondNs), WaitResult::kReady);
        continue;
      }
      if (i % 16 == 0) pause_for(300'000);  // so that the guest sleeps
      both->worker->replies().complete(record.header.reply, static_cast<int32_t>(i));
      both->worker->consumer().release();
      ++i;
    }
  });
  const uint32_t slot = both->guest->replies().acquire();
  for (int i = 0; i < calls; ++i) {
    if (i % 16 == 8) pause_for(300'000);  // so that the worker does
    ASSERT_NE(write_record(&both->guest->producer(), 1, Args{5}, {}, slot), 0u);
    Reply reply;
    ASSERT_EQ(both->guest->replies().wait(slot, &reply, 20 * kSecondNs), WaitResult::kReady);
    ASSERT_EQ(reply.result, i);
  }
  worker.join();
}

TEST(Region, PolledChannelCarriesCallsBothSidesSleeping) {
  const UniqueFd region = region_of(4 << 20);
  Both both = attach_through(BellKind::kPolled, region.get());
  ASSERT_NE(both.guest, nullptr);
  EXPECT_NE(both.guest->transport().memory().data(), both.worker->transport().memory().data());
  exchange(&both, 200);
}

// The device's register and the page of the epoch are files here, and a thread is the relay.
TEST(Region, RungChannelWakesBothSides) {
  const UniqueFd region = region_of(4 << 20);
  const UniqueFd registers = region_of(kPageBytes), epoch_page = region_of(kPageBytes);
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  Both both = attach_through(BellKind::kRung, region.get(), event.get(),
                             {registers.get(), epoch_page.get()});
  ASSERT_NE(both.guest, nullptr);
  Result<Mapping> epoch = Mapping::map_shared(epoch_page.get(), kPageBytes);
  ASSERT_TRUE(epoch.ok());
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(epoch->data());
  std::atomic<bool> over{false};
  std::thread interrupt([&] {  // the guest's agent
    uint64_t count = 0;
    // The worker's end has made it one that does not block, for all who have it.
    pollfd due{event.get(), POLLIN, 0};
    while (!over.load() && ::poll(&due, 1, -1) == 1) {
      ASSERT_EQ(::read(event.get(), &count, sizeof(count)), ssize_t{sizeof(count)});
      word->fetch_add(1);
      futex_wake_all(word);
    }
  });
  std::thread relay([&] {  // the host's program, which no register of a file can wake
    const ChannelView view(both.worker->transport().memory().data(), {});
    while (!over.load()) {
      futex_wake_all(&view.header()->consumer_sleep.sleeping);
      pause_for(100'000);
    }
  });
  exchange(&both, 100);
  EXPECT_GT(word->load(), 0u) << "the guest was never rung for";
  over.store(true);
  const uint64_t one = 1;
  ASSERT_EQ(::write(event.get(), &one, sizeof(one)), ssize_t{sizeof(one)});
  interrupt.join();
  relay.join();
}

TEST(Region, DeathEndsWaitsThatNobodyCanWake) {
  const UniqueFd region = region_of(4 << 20);
  Both both = attach_through(BellKind::kPolled, region.get());
  ASSERT_NE(both.guest, nullptr);
  const uint32_t slot = both.guest->replies().acquire();
  std::thread waiter([&] {
    Reply reply;
    EXPECT_EQ(both.guest->replies().wait(slot, &reply), WaitResult::kDead);
    EXPECT_EQ(both.guest->semaphores().wait(Semaphore::kExecuted, 1), WaitResult::kDead);
  });
  std::thread consumer([&] { EXPECT_EQ(both.worker->consumer().wait(), WaitResult::kDead); });
  pause_for(20'000'000);
  both.guest->mark_dead();
  both.worker->mark_dead();
  waiter.join();
  consumer.join();
}

TEST(Region, WorkerRefusesMemoryThatCanShrinkAndPiecesThatAreNone) {
  UniqueFd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 8 << 20), 0);
  const ChannelSizes sizes = ChannelSizes::fitting(2 << 20);
  const auto make = [&](Role role, int memory, uint64_t offset) {
    return make_region(role, UniqueFd(), memory, offset, sizes, {}).status().code();
  };
  EXPECT_EQ(make(Role::kWorker, loose.get(), 0), StatusCode::kMalformed);
  const UniqueFd region = region_of(4 << 20);
  EXPECT_EQ(make(Role::kWorker, region.get(), kOffset), StatusCode::kOk);
  EXPECT_EQ(make(Role::kWorker, region.get(), kOffset + 1), StatusCode::kMalformed);
  EXPECT_EQ(make(Role::kWorker, region.get(), 3 << 20), StatusCode::kMalformed);
  EXPECT_EQ(make(Role::kWorker, region.get(), UINT64_MAX - 4095), StatusCode::kMalformed);
  EXPECT_EQ(make(Role::kGuest, region.get(), 3 << 20), StatusCode::kMalformed);
  EXPECT_EQ(make(Role::kGuest, loose.get(), kOffset), StatusCode::kOk);
}

TEST(Region, SaysThatNoDescriptorsReachThePeer) {
  const UniqueFd region = region_of(4 << 20);
  auto transport = make_region(Role::kWorker, UniqueFd(), region.get(), kOffset,
                               ChannelSizes::fitting(1 << 20), {});
  ASSERT_TRUE(transport.ok());
  EXPECT_EQ((*transport)->send_descriptor(0, 0).code(), StatusCode::kNotSupported);
  EXPECT_EQ((*transport)->receive_descriptor(0).status().code(), StatusCode::kNotSupported);
}

TEST(Region, OfferIsWholeOrMalformed) {
  Ends ends = sockets();
  const UniqueFd region = region_of(4 << 20);
  const int one[] = {region.get()};
  std::vector<uint8_t> bytes(32, 0xee);
  ASSERT_TRUE(send_frame(ends.guest.get(), bytes, one).ok());
  EXPECT_EQ(receive_region_offer(ends.server.get(), 1000).status().code(), StatusCode::kMalformed);
  RegionOffer offer;  // a bell that wants an interrupt, without one
  offer.region.reset(::dup(region.get()));
  offer.bell = BellKind::kRung;
  ASSERT_TRUE(send_region_offer(ends.guest.get(), offer).ok());
  EXPECT_EQ(receive_region_offer(ends.server.get(), 1000).status().code(), StatusCode::kMalformed);
  HelloReply reply;
  offer.bell = BellKind::kPolled;
  offer.bytes = 4096;  // no room for a channel
  ASSERT_TRUE(send_region_offer(ends.guest.get(), offer).ok());
  EXPECT_FALSE(take_region(ends.server.get(), &reply, 1000).ok());
}

}  // namespace
}  // namespace vgpu::protocol
