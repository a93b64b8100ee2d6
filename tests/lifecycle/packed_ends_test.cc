// How packed guests end: by themselves, killed, by a fault, and without vgpud.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include "tests/lifecycle/packed_fixture.h"

namespace vgpu::testing {
namespace {

class PackedEnds : public Packed {
 protected:
  // A guest in a process of its own, which waits to be killed; `kernel` runs in it.
  pid_t fork_guest(const std::string& kernel) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
      Member mine = add();
      if (mine.memory == 0) _exit(1);
      mine.guest->write_inline(mine.memory, std::string(4, '\0'));
      make_stream(&mine, 0, CU_STREAM_NON_BLOCKING);
      launch(mine.guest.get(), kernel, mine.memory);
      // Past when the device has what is before it.
      launch(mine.guest.get(), "double_all", mine.memory + 4, 1, 1, stream_id(0));
      (void)mine.guest->read(mine.memory + 4, 4, stream_id(0));
      if (write(ends[1], "x", 1) != 1) _exit(2);
      for (;;) pause();
    }
    char byte = 0;
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return pid;
  }
  static void kill_and_reap(pid_t pid) {
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  }
};

// So often that parts of addresses and places are used again, with all of the device's memory.
TEST_F(PackedEnds, WhoHasGoneGivesEverythingBack) {
  Member stays = add();
  ASSERT_NE(stays.memory, 0u);
  for (int i = 0; i < 40; ++i) {
    Member comes = add();
    ASSERT_NE(comes.memory, 0u) << i;
    ASSERT_EQ(comes.worker(), stays.worker());
    wire::MemCreditArgs credit;
    credit.bytes = kGrant;
    ASSERT_EQ(comes.guest->call(Op::kMemCredit, credit), 0);
    expect_works(&comes);
    comes.leave();
    ASSERT_TRUE(eventually([&] { return guests() == 1; }));
  }
  EXPECT_EQ(granted(), kGrant);
  expect_works(&stays);
}

TEST_F(PackedEnds, AKilledGuestGivesEverythingBackAndOthersGoOn) {
  Member stays = add();
  ASSERT_NE(stays.memory, 0u);
  for (int i = 0; i < 5; ++i) {
    const pid_t pid = fork_guest("double_all");
    ASSERT_GT(pid, 0);
    ASSERT_EQ(guests(), 2u);
    kill_and_reap(pid);
    ASSERT_TRUE(eventually([&] { return guests() == 1; }));
    EXPECT_EQ(granted(), kGrant);
    expect_works(&stays);
  }
}

// What it left running keeps its memory as long as others are there, whom it does not disturb.
TEST_F(PackedEnds, AKernelThatNeverEndsEndsWithTheLastGuest) {
  Member stays = add();
  ASSERT_NE(stays.memory, 0u);
  const pid_t worker = stays.worker();
  const pid_t pid = fork_guest("spin");
  ASSERT_GT(pid, 0);
  kill_and_reap(pid);
  for (int i = 0; i < 20; ++i) expect_works(&stays);
  EXPECT_EQ(granted(), 2 * kGrant) << "its kernel may still write there";
  stays.leave();
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_TRUE(eventually([&] { return granted() == 0; }));
  Member next = add();
  ASSERT_NE(next.memory, 0u);
  expect_works(&next);
}

TEST_F(PackedEnds, AFaultIsEverybodys) {
  Member one = add(), idle = add(), plain = add("plain");
  ASSERT_NE(plain.memory, 0u);
  launch(one.guest.get(), "wild", 0x1000);
  EXPECT_EQ(one.guest->synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(eventually([&] { return idle.sticky() == CUDA_ERROR_ILLEGAL_ADDRESS; }))
      << "without a call of its own";
  launch(idle.guest.get(), "double_all", idle.memory);
  EXPECT_EQ(idle.guest->synchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_works(&plain);
  // Who comes now has another worker, while those are still there.
  Member next = add();
  ASSERT_NE(next.memory, 0u);
  EXPECT_NE(next.worker(), one.worker());
  expect_works(&next);
  const pid_t broken = one.worker();
  one.leave();
  idle.leave();
  EXPECT_TRUE(eventually([&] { return gone(broken); }));
  expect_works(&next);
}

TEST_F(PackedEnds, AnOperatorEndsOneOfThem) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  SteerRequest request;
  request.action = SteerAction::kKill;
  request.session = one.session();
  ASSERT_EQ(steer(request), "");
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  pollfd end{one.guest->channel().transport().liveness_fd(), POLLRDHUP, 0};
  EXPECT_EQ(poll(&end, 1, kHangMs), 1) << "which the guest's library sees";
  EXPECT_EQ(granted(), kGrant);
  expect_works(&two);
}

TEST_F(PackedEnds, TheWorkerGoesWithItsLastGuest) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  const pid_t worker = one.worker();
  one.leave();
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  EXPECT_FALSE(gone(worker));
  two.leave();
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
  EXPECT_TRUE(eventually([&] { return granted() == 0; }));
}

TEST_F(PackedEnds, AWorkerThatIsKilledEndsItsGuestsOnly) {
  Member one = add(), two = add(), plain = add("plain");
  ASSERT_NE(plain.memory, 0u);
  kill(one.worker(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  EXPECT_EQ(granted(), kGrant);
  expect_works(&plain);
  Member next = add();
  ASSERT_NE(next.memory, 0u);
  expect_works(&next);
}

TEST_F(PackedEnds, ALaterVgpudTakesThemOver) {
  Member one = add(), two = add();
  ASSERT_NE(two.memory, 0u);
  server_->kill_hard();
  expect_works(&one);
  server_->start();
  ASSERT_TRUE(eventually([&] { return list().guests.size() == 2; }));
  EXPECT_EQ(granted(), 2 * kGrant);
  for (const GuestState& guest : list().guests) EXPECT_EQ(guest.mode, kMode);
  expect_works(&one);
  expect_works(&two);
  one.leave();
  EXPECT_TRUE(eventually([&] { return list().guests.size() == 1; }));
  EXPECT_EQ(granted(), kGrant);
  expect_works(&two);
  Member next = add();
  ASSERT_NE(next.memory, 0u);
  EXPECT_NE(next.worker(), two.worker()) << "a worker of an earlier server gets no new guests";
  expect_works(&next);
  const pid_t worker = two.worker();
  two.leave();
  EXPECT_TRUE(eventually([&] { return gone(worker); }));
}

}  // namespace
}  // namespace vgpu::testing
