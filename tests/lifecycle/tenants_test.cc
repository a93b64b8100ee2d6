// Tenants, profiles, quotas and operators, with real servers, workers and guests.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <thread>

#include "scheduler/share.h"
#include "tests/lifecycle/tenants_fixture.h"

namespace vgpu::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(Tenants, AProfileSaysWhatAGuestGets) {
  start("[tenant.us]\n" + mine() + "profiles = [\"small\", \"large\"]\n");
  const protocol::Attachment small = attach(), large = attach("large", 32 * kMiB);
  ASSERT_TRUE(small.status.ok()) << small.status.to_string();
  ASSERT_TRUE(large.status.ok()) << large.status.to_string();
  EXPECT_EQ(small.reply.memory_bytes, 64 * kMiB);
  EXPECT_EQ(large.reply.memory_bytes, 32 * kMiB);
  const GuestsReply guests = list();
  ASSERT_EQ(guests.guests.size(), 2U);
  EXPECT_EQ(guests.guests[0].tenant, "us");
  EXPECT_EQ(guests.guests[0].profile, "small");
  EXPECT_EQ(guests.guests[0].weight, 50U);
  EXPECT_EQ(guests.guests[0].uid, getuid());
  EXPECT_EQ(guests.guests[1].profile, "large");
  EXPECT_EQ(guests.guests[1].priority, static_cast<uint8_t>(scheduler::PriorityClass::kLatency));
  EXPECT_EQ(guests.guests[1].granted_bytes, (std::vector<uint64_t>{32 * kMiB}));
}

TEST_F(Tenants, RefusalsSayWhyAndWhatIsFree) {
  start("[tenant.us]\n" + mine() +
        "profiles = [\"small\", \"large\"]\nmemory = \"160M\"\nguests = 2\n");
  const auto refused = [&](const protocol::Attachment& attachment, int32_t code) {
    EXPECT_FALSE(attachment.status.ok());
    EXPECT_EQ(attachment.cuda_error, code);
    return attachment.status.text();
  };
  EXPECT_THAT(refused(attach("whole"), CUDA_ERROR_NOT_PERMITTED), HasSubstr("but: small, large"));
  EXPECT_THAT(refused(attach("none"), CUDA_ERROR_NOT_PERMITTED), HasSubstr("'none'"));
  EXPECT_THAT(refused(attach("small", 65 * kMiB), CUDA_ERROR_OUT_OF_MEMORY),
              HasSubstr("at most 64 MiB"));
  EXPECT_THAT(refused(attach("small", 0, 51), CUDA_ERROR_OUT_OF_MEMORY), HasSubstr("at most 50"));
  EXPECT_THAT(refused(attach("small", 0, 20'000), CUDA_ERROR_INVALID_VALUE), HasSubstr("share"));
  const protocol::Attachment one = attach("large", 128 * kMiB);
  ASSERT_TRUE(one.status.ok());
  EXPECT_THAT(refused(attach(), CUDA_ERROR_OUT_OF_MEMORY), HasSubstr("32 MiB of its 160 MiB left"));
  const protocol::Attachment two = attach("small", 16 * kMiB);
  ASSERT_TRUE(two.status.ok());
  EXPECT_THAT(refused(attach("small", 2 * kMiB), CUDA_ERROR_OUT_OF_MEMORY), HasSubstr("2 guests"));
  EXPECT_EQ(granted(), 144 * kMiB) << "the refused have nothing";
}

TEST_F(Tenants, NothingIsOversoldWhenManyComeAtOnce) {
  start("[tenant.us]\n" + mine() + "profiles = [\"small\"]\nmemory = \"200M\"\n");
  std::vector<protocol::Attachment> guests(8);
  std::vector<std::thread> threads;
  for (auto& guest : guests) threads.emplace_back([&] { guest = attach(); });
  for (auto& thread : threads) thread.join();
  size_t admitted = 0;
  for (const auto& guest : guests) admitted += guest.status.ok() ? 1 : 0;
  EXPECT_EQ(admitted, 3U) << "64 MiB each of 200 MiB";
  EXPECT_EQ(granted(), 192 * kMiB);
  guests.clear();
  EXPECT_TRUE(eventually([&] { return granted() == 0; }));
  EXPECT_TRUE(attach().status.ok());
}

TEST_F(Tenants, AnExclusiveGuestIsAlone) {
  start("");
  const protocol::Attachment other = attach("small");
  ASSERT_TRUE(other.status.ok());
  EXPECT_THAT(attach("whole").status.text(), HasSubstr("whole device"));
  SteerRequest end;
  end.action = SteerAction::kKill;
  end.session = list().guests.at(0).session;
  EXPECT_EQ(steer(end), "");
  EXPECT_TRUE(eventually([&] { return list().guests.empty(); }));
  const protocol::Attachment whole = attach("whole");
  ASSERT_TRUE(whole.status.ok()) << whole.status.text();
  EXPECT_THAT(attach("small", 2 * kMiB).status.text(), HasSubstr("free"));
  EXPECT_THAT(steer(limit(8 * kMiB)), HasSubstr("whole devices"));
}

TEST_F(Tenants, TokensTellGuestsOfOneUserApart) {
  std::ofstream(folder_ + "/tokens") << "lab " << kToken << "\n";
  ASSERT_EQ(chmod((folder_ + "/tokens").c_str(), 0600), 0);
  start("[tenant.us]\n" + mine() + "[tenant.lab]\n" + mine(),
        std::string("token_file = \"tokens\"\n") + kProfiles);
  const protocol::Attachment us = attach(), lab = attach("", 0, 0, kToken);
  ASSERT_TRUE(us.status.ok() && lab.status.ok());
  EXPECT_EQ(list().guests.at(0).tenant, "us");
  EXPECT_EQ(list().guests.at(1).tenant, "lab");
  const protocol::Attachment wrong = attach("", 0, 0, std::string(kToken) + "x");
  EXPECT_EQ(wrong.cuda_error, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_THAT(wrong.status.text(), HasSubstr("token"));
  EXPECT_EQ(wrong.status.text().find(kToken), std::string::npos);
}

TEST_F(Tenants, MemoryChangesWhileAGuestRuns) {
  start("[tenant.us]\n" + mine() + "profiles = [\"large\", \"whole\"]\nmemory = \"512M\"\n");
  protocol::Attachment attachment = attach("large", 64 * kMiB);
  ASSERT_TRUE(attachment.status.ok());
  Guest guest(attachment.channel.get());
  guest.enter_context();
  const uint64_t base = attachment.reply.device_range.base;
  ASSERT_EQ(guest.map(base, 64 * kMiB), 0);
  ASSERT_EQ(guest.synchronize(), 0);
  wire::MemCreditArgs more;
  more.bytes = 16 * kMiB;
  ASSERT_EQ(guest.call(Op::kMemCredit, more), 0) << "the rest of the quota, which is none";
  const auto credit = [&] { return guest.channel().semaphores().credit(0); };
  ASSERT_EQ(credit(), 64 * kMiB);
  // More:
  ASSERT_EQ(steer(limit(80 * kMiB)), "");
  ASSERT_TRUE(eventually([&] { return guest.channel().semaphores().quota(0) == 80 * kMiB; }));
  ASSERT_EQ(guest.call(Op::kMemCredit, more), 0);
  EXPECT_EQ(credit(), 80 * kMiB);
  EXPECT_EQ(granted(), 80 * kMiB);
  EXPECT_THAT(steer(limit(513 * kMiB)), HasSubstr("'us'")) << "the tenant's bound holds";
  EXPECT_EQ(granted(), 80 * kMiB);
  // Less than it uses: it keeps that and gets no more, and nobody else gets it.
  SteerReply reply;
  ASSERT_EQ(steer(limit(16 * kMiB), &reply), "");
  EXPECT_EQ(reply.memory_bytes, 16 * kMiB);
  EXPECT_EQ(reply.held_bytes, 80 * kMiB);
  ASSERT_TRUE(eventually([&] { return guest.channel().semaphores().quota(0) == 16 * kMiB; }));
  more.bytes = 2 * kMiB;
  ASSERT_EQ(guest.call(Op::kMemCredit, more), 0);
  EXPECT_EQ(credit(), 80 * kMiB) << "no more";
  EXPECT_EQ(granted(), 80 * kMiB) << "what it uses is not sold again";
  EXPECT_EQ(list().guests[0].granted_bytes[0], 16 * kMiB);
  guest.write_inline(base + 60 * kMiB, "still there");
  EXPECT_EQ(guest.read(base + 60 * kMiB, 11), "still there");
  // It frees some: that is free for others.
  wire::MemReleaseArgs release;
  release.address = base;
  release.bytes = 48 * kMiB;
  ASSERT_EQ(guest.call(Op::kMemRelease, release), 0);
  guest.call(Op::kMemCredit, more);  // the worker counts what came back when it is asked next
  ASSERT_TRUE(attach("large", 64 * kMiB).status.ok());
  EXPECT_TRUE(eventually([&] { return granted() == 32 * kMiB; })) << granted() / kMiB;
}

TEST_F(Tenants, SharesChangeWhileAGuestRunsAndOutliveTheServer) {
  start("[tenant.us]\n" + mine() + "profiles = [\"small\"]\n");
  const protocol::Attachment attachment = attach();
  ASSERT_TRUE(attachment.status.ok());
  SteerRequest request = limit(32 * kMiB, 900);
  request.cap_permille = 125;
  request.priority = 4;
  ASSERT_EQ(steer(request), "");
  const auto holds = [&] {
    const GuestsReply now = list();
    return now.guests.size() == 1 && now.guests[0].weight == 900 &&
           now.guests[0].cap_permille == 125 && now.guests[0].priority == 3 &&
           now.guests[0].tenant == "us" && now.guests[0].profile == "small" &&
           now.guests[0].granted_bytes == std::vector<uint64_t>{32 * kMiB};
  };
  EXPECT_TRUE(holds());
  EXPECT_TRUE(eventually([&] { return attachment.channel->semaphores().quota(0) == 32 * kMiB; }));
  server_->kill_hard();
  server_->start();
  EXPECT_TRUE(eventually(holds)) << "the next server has it from the worker";
}

TEST_F(Tenants, AHangUpReadsTheConfigurationAgain) {
  start("[tenant.us]\n" + mine() + "profiles = [\"small\", \"large\"]\n");
  const protocol::Attachment small = attach("small"), large = attach("large", 8 * kMiB, 300);
  ASSERT_TRUE(small.status.ok() && large.status.ok());
  ASSERT_EQ(steer(limit(0, 77)), "");
  configure(
      "[profile.small]\nweight = 20\n[profile.large]\nweight = 200\n[profile.new]\n"
      "memory = \"16M\"\n[tenant.them]\n" +
      mine() + "profiles = [\"new\", \"large\"]\n");
  ASSERT_EQ(kill(server_->pid(), SIGHUP), 0);
  ASSERT_TRUE(eventually([&] { return list().guests.at(1).weight == 200; }))
      << "it had asked for 300";
  EXPECT_EQ(list().guests.at(0).weight, 77U) << "an operator's word stays";
  const protocol::Attachment fresh = attach();
  ASSERT_TRUE(fresh.status.ok());
  EXPECT_EQ(fresh.reply.memory_bytes, 16 * kMiB);
  EXPECT_EQ(list().guests.at(2).tenant, "them");
  EXPECT_FALSE(attach("small").status.ok());
  // What is wrong changes nothing.
  configure("[profile.small]\nweight = 0\n");
  ASSERT_EQ(kill(server_->pid(), SIGHUP), 0);
  const protocol::Attachment again = attach("new");
  EXPECT_TRUE(again.status.ok()) << again.status.text();
  EXPECT_EQ(list().guests.at(1).weight, 200U);
}

TEST_F(Tenants, DrainingTakesNoNewGuests) {
  start("");
  const protocol::Attachment running = attach("small");
  SteerRequest request;
  request.action = SteerAction::kDrain;
  SteerReply reply;
  ASSERT_EQ(steer(request, &reply), "");
  EXPECT_EQ(reply.guests, 1U);
  EXPECT_TRUE(list().draining);
  const protocol::Attachment refused = attach("small");
  EXPECT_EQ(refused.cuda_error, CUDA_ERROR_NO_DEVICE);
  EXPECT_THAT(refused.status.text(), HasSubstr("draining"));
  request.action = SteerAction::kUndrain;
  ASSERT_EQ(steer(request), "");
  EXPECT_TRUE(attach("small").status.ok());
}

TEST_F(Tenants, AbsurdRequestsChangeNothing) {
  start("");
  const protocol::Attachment attachment = attach("small");
  ASSERT_TRUE(attachment.status.ok());
  const SteerRequest good = limit(0);
  for (const auto& change : std::vector<std::function<void(SteerRequest*)>>{
           [](SteerRequest* r) { r->weight = 10'001; },
           [](SteerRequest* r) { r->weight = UINT32_MAX; },
           [](SteerRequest* r) { r->cap_permille = 1001; },
           [](SteerRequest* r) { r->priority = 5; },
           [](SteerRequest* r) { r->memory_bytes = UINT64_MAX; },
           [](SteerRequest* r) { r->memory_bytes = uint64_t{1} << 62; },
           [](SteerRequest* r) { r->memory_bytes = uint64_t{1} << 50; },
           [](SteerRequest* r) { r->session = 0; },
           [](SteerRequest* r) { r->session ^= 1ULL << 63; },
           [](SteerRequest* r) { r->session += 7, r->action = SteerAction::kKill; }}) {
    SteerRequest request = good;
    change(&request);
    EXPECT_NE(steer(request), "");
  }
  EXPECT_NE(steer([&] {
              SteerRequest odd = good;
              odd.action = static_cast<SteerAction>(9);
              return odd;
            }()),
            "");
  const GuestsReply now = list();
  ASSERT_EQ(now.guests.size(), 1U);
  EXPECT_EQ(now.guests[0].weight, 50U);
  EXPECT_EQ(now.guests[0].granted_bytes[0], 64 * kMiB);
  EXPECT_EQ(granted(), 64 * kMiB);
  const auto beyond = server_->ask(protocol::GuestsRequest{UINT64_MAX});
  ASSERT_TRUE(beyond.has_value());
  EXPECT_TRUE(std::get<GuestsReply>(*beyond).guests.empty());
}

TEST_F(Tenants, OthersSeeAndSteerOnlyWhatIsTheirs) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start("[tenant.us]\n" + mine() + "[tenant.them]\nuids = [" + std::to_string(kForeign) + "]\n");
  const protocol::Attachment ours = attach("small");
  ASSERT_TRUE(ours.status.ok());
  const uint64_t session = list().guests.at(0).session;
  const int code = as_foreign([&] {
    if (!list().guests.empty()) return 1;
    const protocol::Attachment theirs = attach("small", 8 * kMiB);
    if (!theirs.status.ok()) return 2;
    const GuestsReply seen = list();
    if (seen.guests.size() != 1 || seen.guests[0].uid != kForeign) return 3;
    if (seen.guests[0].tenant != "them") return 4;
    const auto info = server_->info();
    if (!info || info->guests.size() != 1) return 5;
    for (const uint64_t target : {session, seen.guests[0].session}) {
      for (const SteerAction action :
           {SteerAction::kLimit, SteerAction::kKill, SteerAction::kDrain, SteerAction::kUndrain}) {
        SteerRequest request;
        request.action = action;
        request.session = target;
        request.weight = 1;
        if (steer(request).find("only root") == std::string::npos) return 6;
      }
    }
    return list().guests.size() == 1 ? 0 : 7;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(list().guests.at(0).weight, 50U);
  EXPECT_FALSE(list().draining);
}

// Containers without users of their own: uid 0, but not here.
TEST_F(Tenants, TheRootOfAContainerIsNoOperator) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a namespace";
  start("");
  const protocol::Attachment ours = attach("small");
  ASSERT_TRUE(ours.status.ok());
  const pid_t child = fork();
  if (child == 0) {
    const pid_t inner = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
    if (inner == 0) {
      SteerRequest request;
      request.action = SteerAction::kDrain;
      _exit(steer(request).find("only root") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    _exit(inner > 0 && waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(list().draining);
}

TEST_F(Tenants, AUserOfNoTenantIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  start("[tenant.us]\n" + mine());
  EXPECT_EQ(as_foreign([&] {
              const protocol::Attachment refused = attach("small");
              return refused.cuda_error == CUDA_ERROR_NOT_PERMITTED &&
                             refused.status.text().find("no tenant") != std::string::npos
                         ? 0
                         : 1;
            }),
            0);
}

}  // namespace
}  // namespace vgpu::testing
