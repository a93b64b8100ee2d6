// A channel between two processes, and what happens when one is killed.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <thread>
#include <vector>

#include "protocol/session/handshake.h"
#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

constexpr AddressRange kRange{uint64_t{1} << 45, uint64_t{1} << 43};

// The child: answers the first record, then only reads. Never returns.
[[noreturn]] void run_worker(UniqueFd socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that fails leaves nothing behind
  HelloReply reply;
  reply.memory_bytes = 1 << 30;
  reply.device_range = kRange;
  reply.devices.resize(1);
  reply.sizes = small_sizes();
  if (!receive_message(socket.get(), 10'000).ok()) _exit(1);
  Result<std::unique_ptr<WorkerChannel>> worker = answer_hello(std::move(socket), reply);
  if (!worker.ok()) _exit(2);
  for (bool first = true;;) {
    Record record;
    const PeekResult result = (*worker)->consumer().peek(&record);
    if (result == PeekResult::kMalformed) _exit(3);
    if (result == PeekResult::kEmpty) {
      (void)(*worker)->consumer().wait();
      continue;
    }
    if (first) (*worker)->replies().complete(record.header.reply, 0);
    first = false;
    (*worker)->consumer().release();
  }
}

TEST(Processes, KilledWorkerWakesEveryWaiter) {
  int both[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
  UniqueFd here(both[0]), there(both[1]);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    here.reset();
    run_worker(std::move(there));
  }
  there.reset();
  Hello hello;
  hello.device_ranges = {kRange};
  Attachment attachment = attach_over(std::move(here), hello, 10'000);
  ASSERT_TRUE(attachment.status.ok()) << attachment.status.text();
  GuestChannel& guest = *attachment.channel;

  const uint32_t slot = guest.replies().acquire();
  ASSERT_NE(write_record(&guest.producer(), 3, uint64_t{1}, {}, slot), 0u);
  Reply reply;
  ASSERT_EQ(guest.replies().wait(slot, &reply), WaitResult::kReady);

  std::thread watcher([&] {
    pollfd entry{guest.transport().liveness_fd(), POLLIN, 0};
    while (::poll(&entry, 1, -1) < 0) {
    }
    guest.mark_dead();
  });
  std::vector<std::thread> waiters;
  std::atomic<int> woken{0};
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      const uint32_t mine = guest.replies().acquire();
      Reply never;
      if (mine == kNoReply || guest.replies().wait(mine, &never) == WaitResult::kDead) ++woken;
    });
    waiters.emplace_back([&] {
      if (guest.semaphores().wait(Semaphore::kExecuted, 1) == WaitResult::kDead) ++woken;
    });
  }
  waiters.emplace_back([&] {
    const Staging::Piece all = guest.allocate_down(guest.down_slab().size(), true);
    if ((all.ok() || guest.dead()) && !guest.allocate_down(1, true).ok()) ++woken;
  });
  ::kill(child, SIGKILL);
  for (std::thread& waiter : waiters) waiter.join();
  watcher.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(woken, 9);
  EXPECT_FALSE(guest.usable());
  EXPECT_EQ(guest.replies().acquire(), kNoReply);
}

TEST(Channel, UpSlabWaitsForRetirement) {
  TestChannel channel;
  GuestChannel& guest = *channel.guest;
  const uint64_t half = guest.up_slab().size() / 2;
  EXPECT_FALSE(guest.allocate_up(guest.up_slab().size() + 1).ok());
  for (int i = 0; i < 2; ++i) {
    const Staging::Piece piece = guest.allocate_up(half);
    ASSERT_TRUE(piece.ok());
    std::lock_guard hold(guest.lock());
    guest.bind_up(piece, write_record(&guest.producer(), 3, uint64_t{1}));
  }
  std::thread worker([&] { channel.worker->semaphores().raise(Semaphore::kSlabRetired, 1); });
  EXPECT_TRUE(guest.allocate_up(half).ok());  // the space of record 1
  worker.join();
}

// Lets another thread run: that it waits cannot be seen from outside.
void give_way() {
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
}

// A thread that finds the slab held by one that still fills its piece waits for it, and for what
// its record does; not so when the piece comes back unused, and not on a dead channel.
TEST(Channel, UpSlabWaitsForWhoFillsIt) {
  TestChannel channel;
  GuestChannel& guest = *channel.guest;
  const uint64_t all = guest.up_slab().size();
  const Staging::Piece filled = guest.allocate_up(all);
  std::atomic<bool> got{false};
  std::thread waiter([&] { got = guest.allocate_up(all).ok(); });
  give_way();
  EXPECT_FALSE(got);
  {
    std::lock_guard hold(guest.lock());
    guest.bind_up(filled, write_record(&guest.producer(), 3, uint64_t{1}));
  }
  give_way();
  EXPECT_FALSE(got) << "the worker has not read it yet";
  channel.worker->semaphores().raise(Semaphore::kSlabRetired, 1);
  waiter.join();
  EXPECT_TRUE(got);  // and holds the slab, without a record

  bool refused = false;
  std::thread last([&] { refused = !guest.allocate_up(all).ok(); });
  give_way();
  guest.mark_dead();
  last.join();
  EXPECT_TRUE(refused);
}

TEST(Channel, UpSlabComesBackUnused) {
  TestChannel channel;
  GuestChannel& guest = *channel.guest;
  const Staging::Piece all = guest.allocate_up(guest.up_slab().size());
  bool got = false;
  std::thread waiter([&] { got = guest.allocate_up(1).ok(); });
  give_way();
  {
    std::lock_guard hold(guest.lock());
    guest.bind_up(all, 0);
  }
  waiter.join();
  EXPECT_TRUE(got);
}

// The worker lives and fails the session: nobody hangs up, so the state itself must wake.
TEST(Channel, AFailedSessionWakesWhoWaitsForTheDownSlab) {
  TestChannel channel;
  GuestChannel& guest = *channel.guest;
  ASSERT_TRUE(guest.allocate_down(guest.down_slab().size(), true).ok());
  auto waiter = std::async(std::launch::async, [&] { return guest.allocate_down(1, true).ok(); });
  EXPECT_EQ(waiter.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  channel.worker->semaphores().set_state(SessionState::kFailed, 999);
  if (waiter.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
    ADD_FAILURE() << "still waiting";
    guest.mark_dead();
  }
  EXPECT_FALSE(waiter.get());
  EXPECT_FALSE(guest.allocate_down(1, true).ok());
}

TEST(Channel, DownSlabIsHandedOver) {
  TestChannel channel;
  GuestChannel& guest = *channel.guest;
  const Staging::Piece all = guest.allocate_down(guest.down_slab().size(), true);
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE(guest.allocate_down(1, false).ok());
  bool got = false;
  std::thread waiter([&] { got = guest.allocate_down(1, true).ok(); });
  guest.release_down(all);
  waiter.join();
  EXPECT_TRUE(got);
}

TEST(Channel, ForeignMemoryIsNotOpened) {
  Result<LoopPair> pair = make_loop(small_sizes());
  ASSERT_TRUE(pair.ok());
  EXPECT_EQ(GuestChannel::open(std::move(pair->guest)).status().code(), StatusCode::kMalformed);
}

}  // namespace
}  // namespace vgpu::protocol
