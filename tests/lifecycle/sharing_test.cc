// What one session shares with others: who gets it, and who does not. Hand-written guests, so that
// they can ask what the guest library never would.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uid_t kStranger = 65534;

struct Name {
  uint64_t session = 0, low = 0, high = 0;
};

class Sharing : public ::testing::Test {
 protected:
  struct Tenant {
    protocol::Attachment attachment;
    std::unique_ptr<Guest> guest;
    uint64_t base() const { return attachment.reply.device_range.base; }
    // Addresses where it may map memory of others.
    uint64_t reserved() const {
      return protocol::range_to_reserve(attachment.reply.device_range).base;
    }
  };

  void SetUp() override {
    server_.start();
    const std::string folder = server_.path().substr(0, server_.path().rfind('/'));
    ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  }
  // A guest of this user, or of another one.
  std::unique_ptr<Tenant> attach(uid_t user = 0, uint64_t bytes = 256 * kMiB) {
    auto tenant = std::make_unique<Tenant>();
    const uid_t own = ::geteuid();
    if (user != 0 && ::seteuid(user) != 0) return nullptr;
    tenant->attachment = protocol::attach(server_.address(), test_hello(bytes), 20'000);
    if (user != 0 && ::seteuid(own) != 0) return nullptr;
    EXPECT_TRUE(tenant->attachment.status.ok()) << tenant->attachment.status.to_string();
    if (!tenant->attachment.status.ok()) return nullptr;
    EXPECT_EQ(tenant->attachment.reply.allocator, protocol::AllocatorMode::kReserved);
    tenant->guest = std::make_unique<Guest>(tenant->attachment.channel.get());
    tenant->guest->enter_context();
    return tenant;
  }
  // Of memory at the start of the tenant's range.
  Name share(Tenant* tenant, uint64_t bytes = 4 * kMiB) {
    wire::MemShareArgs args;
    args.address = tenant->base();
    args.bytes = args.size = bytes;
    protocol::Reply reply;
    wire::MemShareReply answer;
    EXPECT_EQ(tenant->guest->call(Op::kMemShare, args, &reply), CUDA_SUCCESS);
    EXPECT_TRUE(reply.get(&answer));
    return {answer.session, answer.secret_low, answer.secret_high};
  }
  int fetch(Tenant* tenant, const Name& name, uint64_t number = 1) {
    wire::ShareFetchArgs args;
    args.number = number;
    args.session = name.session;
    args.secret_low = name.low;
    args.secret_high = name.high;
    return tenant->guest->call(Op::kShareFetch, args);
  }
  int map(Tenant* tenant, uint64_t address, uint64_t number = 1) {
    wire::PeerMapArgs args;
    args.number = number;
    args.address = address;
    return tenant->guest->call(Op::kPeerMap, args);
  }
  ServerProcess server_{{"--socket-mode", "0666"}, SOFTGPU};
};

TEST_F(Sharing, AnotherSessionOfTheUserHasTheMemory) {
  auto first = attach(), second = attach();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  first->guest->write_inline(first->base() + 2 * kMiB, "from the first");
  ASSERT_EQ(first->guest->synchronize(), 0);
  ASSERT_EQ(fetch(second.get(), share(first.get())), CUDA_SUCCESS);
  const uint64_t there = second->reserved();
  ASSERT_EQ(map(second.get(), there), CUDA_SUCCESS);
  EXPECT_EQ(second->guest->read(there + 2 * kMiB, 14), "from the first");
  second->guest->write_inline(there, "back");
  ASSERT_EQ(second->guest->synchronize(), 0);
  EXPECT_EQ(first->guest->read(first->base(), 4), "back");
}

TEST_F(Sharing, NobodyElseHas) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  auto first = attach(), second = attach(), stranger = attach(kStranger);
  ASSERT_TRUE(first && second && stranger);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  const Name name = share(first.get());
  EXPECT_EQ(fetch(stranger.get(), name), CUDA_ERROR_INVALID_VALUE) << "of another user";
  EXPECT_EQ(fetch(second.get(), name), CUDA_SUCCESS);
  // Two guests of the other user do share with each other.
  auto friends = attach(kStranger);
  ASSERT_TRUE(friends);
  ASSERT_EQ(stranger->guest->map(stranger->base(), 4 * kMiB), 0);
  const Name theirs = share(stranger.get());
  EXPECT_EQ(fetch(friends.get(), theirs), CUDA_SUCCESS);
  EXPECT_EQ(fetch(second.get(), theirs, 2), CUDA_ERROR_INVALID_VALUE);
  // All of them go on.
  EXPECT_EQ(stranger->guest->synchronize(), 0);
  EXPECT_EQ(first->guest->synchronize(), 0);
}

TEST_F(Sharing, ForgedAndRevokedNamesOpenNothing) {
  auto first = attach(), second = attach();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  const Name name = share(first.get());
  for (int bit = 0; bit < 64; bit += 7) {
    const uint64_t flipped = uint64_t{1} << bit;
    EXPECT_NE(fetch(second.get(), {name.session, name.low ^ flipped, name.high}), CUDA_SUCCESS);
    EXPECT_NE(fetch(second.get(), {name.session, name.low, name.high ^ flipped}), CUDA_SUCCESS);
    EXPECT_NE(fetch(second.get(), {name.session ^ flipped, name.low, name.high}), CUDA_SUCCESS);
  }
  EXPECT_NE(fetch(second.get(), {0, name.low, name.high}), CUDA_SUCCESS);
  EXPECT_NE(fetch(second.get(), {second->attachment.reply.session, name.low, name.high}),
            CUDA_SUCCESS);
  EXPECT_EQ(fetch(second.get(), name, 7), CUDA_SUCCESS);
  wire::MemUnshareArgs args;
  args.secret_low = name.low;
  args.secret_high = name.high;
  first->guest->post(Op::kMemUnshare, args);
  ASSERT_EQ(first->guest->synchronize(), 0);
  EXPECT_EQ(fetch(second.get(), name, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(map(second.get(), second->reserved(), 7), CUDA_SUCCESS)
      << "what was fetched before stays";
}

TEST_F(Sharing, AGuestMaySharesOnlyWhatIsItsOwn) {
  auto first = attach();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  wire::MemShareArgs args;
  args.address = first->base();
  args.bytes = args.size = 6 * kMiB;
  first->guest->post(Op::kMemShare, args);
  EXPECT_TRUE(eventually([&] { return server_.info()->guests.empty(); })) << "the session ends";
}

TEST_F(Sharing, MappedMemoryCountsForBoth) {
  auto first = attach(0, 64 * kMiB), second = attach(0, 64 * kMiB);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 40 * kMiB), 0);
  ASSERT_EQ(second->guest->map(second->base(), 40 * kMiB), 0);
  EXPECT_EQ(fetch(second.get(), share(first.get(), 40 * kMiB)), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second->guest->synchronize(), 0);
}

// Credit for `bytes` more, as far as the quota reaches: all that there ever was.
uint64_t ask_for_credit(Guest* guest, uint64_t bytes) {
  wire::MemCreditArgs args;
  args.bytes = bytes;
  protocol::Reply reply;
  wire::MemCreditReply answer;
  EXPECT_EQ(guest->call(Op::kMemCredit, args, &reply), CUDA_SUCCESS);
  EXPECT_TRUE(reply.get(&answer));
  return answer.credit;
}

// A guest cannot heap up memory in names that it gives to nobody.
TEST_F(Sharing, WhatWasFreedCountsAsLongAsItIsShared) {
  auto first = attach(0, 64 * kMiB);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->guest->map(first->base(), 40 * kMiB), 0);
  const Name name = share(first.get(), 40 * kMiB);
  wire::MemReleaseArgs release;
  release.address = first->base();
  release.bytes = 40 * kMiB;
  ASSERT_EQ(first->guest->call(Op::kMemRelease, release), CUDA_SUCCESS);
  EXPECT_EQ(ask_for_credit(first->guest.get(), 40 * kMiB), 64 * kMiB);
  wire::MemUnshareArgs unshare;
  unshare.secret_low = name.low;
  unshare.secret_high = name.high;
  first->guest->post(Op::kMemUnshare, unshare);
  EXPECT_EQ(ask_for_credit(first->guest.get(), 40 * kMiB), 104 * kMiB);
}

// Nor in what it fetches and never maps.
TEST_F(Sharing, WhatIsFetchedCounts) {
  auto first = attach(0, 64 * kMiB), second = attach(0, 64 * kMiB);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 40 * kMiB), 0);
  const Name name = share(first.get(), 40 * kMiB);
  // All of its quota has become credit as soon as it attached.
  wire::CreditReturnArgs credit;
  credit.bytes = 64 * kMiB;
  second->guest->post(Op::kCreditReturn, credit);
  ASSERT_EQ(fetch(second.get(), name, 1), CUDA_SUCCESS);
  EXPECT_EQ(fetch(second.get(), name, 2), CUDA_ERROR_OUT_OF_MEMORY);
  wire::ShareDropArgs drop;
  drop.number = 1;
  second->guest->post(Op::kShareDrop, drop);
  EXPECT_EQ(fetch(second.get(), name, 2), CUDA_SUCCESS);
  EXPECT_EQ(map(second.get(), second->reserved(), 2), CUDA_SUCCESS);
  EXPECT_EQ(fetch(second.get(), name, 3), CUDA_ERROR_OUT_OF_MEMORY);
  wire::PhysicalUnmapArgs unmap;
  unmap.address = second->reserved();
  unmap.bytes = 40 * kMiB;
  ASSERT_EQ(second->guest->call(Op::kPhysicalUnmap, unmap), CUDA_SUCCESS);
  EXPECT_EQ(fetch(second.get(), name, 3), CUDA_SUCCESS);
  // What a session fetches of its own is there already.
  EXPECT_EQ(fetch(first.get(), name, 1), CUDA_SUCCESS);
}

TEST_F(Sharing, GoesOnWithANewServer) {
  auto first = attach(), second = attach();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  const Name name = share(first.get());
  server_.kill_hard();
  EXPECT_NE(fetch(second.get(), name), CUDA_SUCCESS) << "nobody introduces them";
  server_.start();
  uint64_t number = 2;
  EXPECT_TRUE(eventually([&] { return fetch(second.get(), name, number++) == CUDA_SUCCESS; }));
}

TEST_F(Sharing, MemoryOutlivesItsSession) {
  auto first = attach(), second = attach();
  ASSERT_TRUE(first && second);
  ASSERT_EQ(first->guest->map(first->base(), 4 * kMiB), 0);
  first->guest->write_inline(first->base(), "still here");
  ASSERT_EQ(first->guest->synchronize(), 0);
  ASSERT_EQ(fetch(second.get(), share(first.get())), CUDA_SUCCESS);
  const uint64_t there = second->reserved();
  ASSERT_EQ(map(second.get(), there), CUDA_SUCCESS);
  first.reset();
  EXPECT_TRUE(eventually([&] { return server_.info()->guests.size() == 1; }));
  EXPECT_EQ(second->guest->read(there, 10), "still here");
}

}  // namespace
}  // namespace vgpu::testing
