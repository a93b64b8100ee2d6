// Remote guests at the gate: keys, tenants, refusals, ends of either side.
// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/user_range.h"
#include "protocol/transport/net_plugin.h"
#include "tests/lifecycle/network_server.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr int kFreedMs = 3000;  // a guest that has died holds nothing after that
constexpr int kErrorMs = 5000;  // a guest whose server has died knows it

class Network : public ::testing::Test {
 protected:
  void SetUp() override { server_.start(); }
  bool no_guests() {
    return eventually([this] { return server_.guests().empty(); });
  }
  NetworkServer server_;
};

const protocol::NetAttached& attached(const net::ControlAnswer& answer) {
  return std::get<protocol::NetAttached>(answer.message);
}

TEST_F(Network, AnAdmittedKeyAttachesAsItsTenant) {
  const net::KeyPair own = server_.admit("team-a");
  {
    net::ControlAnswer answer = net_attach(server_, own);
    ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
    EXPECT_EQ(attached(answer).reply.devices.at(0).name, "Memory test device");
    EXPECT_NE(attached(answer).secret, protocol::Secret{});
    ASSERT_EQ(server_.guests().size(), 1u);
    const protocol::GuestInfo guest = server_.guests()[0];
    EXPECT_EQ(guest.session, attached(answer).reply.session);
    EXPECT_EQ(guest.tenant, "team-a");
    EXPECT_EQ(guest.remote, "127.0.0.1 pid " + std::to_string(getpid()));
    EXPECT_EQ(guest.executable, "test-guest");
    if (geteuid() == 0) {
      EXPECT_NE(user_of_process(guest.pid), 0u) << "what stands for the guest is not root";
    }
    EXPECT_EQ(hangs_up_after(answer.lifeline.get(), 2500), -1) << "it stays while it is heard";
  }
  const double begin = now_ms();
  EXPECT_TRUE(no_guests());
  EXPECT_LT(now_ms() - begin, kFreedMs);
  EXPECT_EQ(server_.vgpud().info()->devices[0].granted_bytes, 0u);
  EXPECT_TRUE(eventually([this] { return server_.use()->guests == 0; }));
  EXPECT_EQ(server_.use()->attached, 1u);
}

TEST_F(Network, EachSessionHasASecretOfItsOwn) {
  const net::KeyPair own = server_.admit("team-a");
  const net::ControlAnswer one = net_attach(server_, own), two = net_attach(server_, own);
  ASSERT_TRUE(one.status.ok() && two.status.ok()) << two.status.to_string();
  EXPECT_NE(attached(one).secret, attached(two).secret);
  EXPECT_NE(attached(one).reply.session, attached(two).reply.session);
  EXPECT_EQ(server_.guests().size(), 2u);
}

TEST_F(Network, AKeyThatIsNotAdmittedDoesNotGetIn) {
  (void)server_.admit("team-a");
  const net::ControlAnswer answer = net_attach(server_, fresh_keys());
  EXPECT_EQ(answer.status.code(), StatusCode::kPermissionDenied) << answer.status.to_string();
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_TRUE(server_.guests().empty());
  EXPECT_TRUE(eventually([this] { return server_.use()->strangers >= 1; }));
}

TEST_F(Network, NobodyGetsInWithoutAFileOfKeys) {
  EXPECT_EQ(net_attach(server_, fresh_keys()).status.code(), StatusCode::kPermissionDenied);
}

TEST_F(Network, AServerWithAnotherKeyIsNotBelieved) {
  const net::KeyPair own = server_.admit("team-a");
  net::ClientKeys keys = server_.keys_for(own);
  keys.server = fresh_keys().public_key;
  protocol::NetAttach asked;
  asked.hello = test_hello();
  const net::ControlAnswer answer =
      net::ask_server(server_.address(), std::move(keys), asked, 10'000);
  EXPECT_EQ(answer.status.code(), StatusCode::kUnavailable);
  EXPECT_NE(answer.status.text().find("is not the server"), std::string::npos)
      << answer.status.text();
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_NO_DEVICE);
}

TEST_F(Network, NobodyAtTheAddressIsSaidAtOnce) {
  protocol::Address elsewhere = server_.address();
  elsewhere.port = 1;
  const double begin = now_ms();
  const net::ControlAnswer answer =
      net::ask_server(elsewhere, server_.keys_for(fresh_keys()), protocol::InfoRequest{}, 10'000);
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(answer.status.text(), "no server answers at tcp://127.0.0.1:1");
  EXPECT_LT(now_ms() - begin, 5000);
}

TEST_F(Network, ARevokedKeysGuestsEnd) {
  const net::KeyPair own = server_.admit("team-a"), other = server_.admit("team-b");
  const net::ControlAnswer goes = net_attach(server_, own), stays = net_attach(server_, other);
  ASSERT_TRUE(goes.status.ok() && stays.status.ok());
  server_.revoke(own.public_key);
  const double after = hangs_up_after(goes.lifeline.get(), kErrorMs);
  EXPECT_GE(after, 0) << "the guest goes on";
  EXPECT_TRUE(eventually([this] { return server_.guests().size() == 1; }));
  EXPECT_EQ(server_.guests()[0].tenant, "team-b");
  EXPECT_EQ(net_attach(server_, own).status.code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(hangs_up_after(stays.lifeline.get(), 100), -1) << "nothing else is disturbed";
}

TEST_F(Network, AnotherVersionOrWireIsAMismatch) {
  const net::KeyPair own = server_.admit("team-a");
  protocol::NetAttach asked;
  asked.hello = test_hello();
  asked.hello.protocol_version += 1;
  EXPECT_EQ(net_attach(server_, own, asked).cuda_error, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  asked.hello = test_hello();
  asked.hello.wire_hash ^= 1;
  const net::ControlAnswer wire = net_attach(server_, own, asked);
  EXPECT_EQ(wire.cuda_error, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  EXPECT_NE(wire.status.text().find("guest test has"), std::string::npos) << wire.status.text();
  EXPECT_TRUE(server_.guests().empty());
}

TEST_F(Network, TheServersRefusalReachesTheGuest) {
  const net::KeyPair own = server_.admit("team-a");
  protocol::NetAttach asked;
  asked.hello = test_hello(uint64_t{1} << 60);
  const net::ControlAnswer answer = net_attach(server_, own, asked);
  EXPECT_EQ(answer.status.code(), StatusCode::kRefused) << answer.status.to_string();
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(Network, WhoWantsEncryptionIsNotServedInTheClear) {
  const net::KeyPair own = server_.admit("team-a");
  protocol::NetAttach asked;
  asked.hello = test_hello();
  asked.require_encryption = true;
  const net::ControlAnswer answer = net_attach(server_, own, asked);
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_NE(answer.status.text().find("encrypt"), std::string::npos) << answer.status.text();
}

TEST_F(Network, ATenantSeesItsOwnGuests) {
  const net::KeyPair own = server_.admit("team-a"), other = server_.admit("team-b");
  const net::ControlAnswer a = net_attach(server_, own), b = net_attach(server_, other);
  ASSERT_TRUE(a.status.ok() && b.status.ok());
  const net::ControlAnswer answer =
      net::ask_server(server_.address(), server_.keys_for(own), protocol::InfoRequest{}, 10'000);
  ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
  const auto& info = std::get<protocol::InfoReply>(answer.message);
  ASSERT_EQ(info.guests.size(), 1u);
  EXPECT_EQ(info.guests[0].tenant, "team-a");
  EXPECT_EQ(info.devices.size(), 1u);
}

// A guest in a child that has attached; ready when it returns. With `forks` a child of it stays
// behind that does nothing.
pid_t guest_process(const NetworkServer& server, const net::KeyPair& own, bool forks) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const net::ControlAnswer answer = net_attach(server, own);
    if (!answer.status.ok()) _exit(1);
    const pid_t child = forks ? fork() : 1;
    if (child == 0) {
      for (;;) pause();
    }
    if (write(ends[1], &child, sizeof(child)) != sizeof(child)) _exit(2);
    for (;;) pause();
  }
  close(ends[1]);
  pid_t child = 0;
  EXPECT_EQ(read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)))
      << "the guest did not start";
  close(ends[0]);
  return forks ? -child : pid;
}

TEST_F(Network, AKilledGuestHoldsNothing) {
  const net::KeyPair own = server_.admit("team-a");
  const pid_t guest = guest_process(server_, own, false);
  ASSERT_EQ(server_.guests().size(), 1u);
  kill(guest, SIGKILL);
  const double begin = now_ms();
  waitpid(guest, nullptr, 0);
  EXPECT_TRUE(no_guests());
  EXPECT_LT(now_ms() - begin, kFreedMs);
}

TEST_F(Network, AForkedChildDoesNotHoldTheSession) {
  const net::KeyPair own = server_.admit("team-a");
  const pid_t child = -guest_process(server_, own, true);
  ASSERT_GT(child, 0);
  // The guest is the parent of the child that was told.
  std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
  std::string word;
  pid_t guest = 0;
  stat >> word >> word >> word >> guest;
  ASSERT_EQ(server_.guests().size(), 1u);
  kill(guest, SIGKILL);
  const double begin = now_ms();
  waitpid(guest, nullptr, 0);
  EXPECT_TRUE(no_guests());
  EXPECT_LT(now_ms() - begin, kFreedMs);
  kill(child, SIGKILL);
}

TEST_F(Network, AGateThatDiesIsAnErrorAndComesAgain) {
  const net::KeyPair own = server_.admit("team-a");
  const net::ControlAnswer answer = net_attach(server_, own);
  ASSERT_TRUE(answer.status.ok());
  kill(server_.gates().at(0), SIGKILL);
  EXPECT_GE(hangs_up_after(answer.lifeline.get(), kErrorMs), 0);
  EXPECT_TRUE(no_guests());
  EXPECT_TRUE(eventually([&] { return net_attach(server_, own).status.ok(); }))
      << "vgpud starts another";
}

TEST_F(Network, GuestsGoOnWhileVgpudIsStartedAgain) {
  const net::KeyPair own = server_.admit("team-a");
  {
    const net::ControlAnswer answer = net_attach(server_, own);
    ASSERT_TRUE(answer.status.ok());
    EXPECT_EQ(server_.vgpud().stop(false), 0);
    server_.start();
    EXPECT_EQ(hangs_up_after(answer.lifeline.get(), 2500), -1) << "the guest has ended";
    ASSERT_EQ(server_.guests().size(), 1u) << "the guest was not taken over";
    EXPECT_EQ(server_.guests()[0].tenant, "team-a");
    EXPECT_TRUE(net_attach(server_, own).status.ok()) << "nobody new gets in";
    server_.revoke("team-a");
    EXPECT_GE(hangs_up_after(answer.lifeline.get(), kErrorMs), 0)
        << "the earlier gate does not look after its guests";
  }
  EXPECT_TRUE(no_guests());
}

TEST_F(Network, VgpudKilledIsTheSame) {
  const net::KeyPair own = server_.admit("team-a");
  const net::ControlAnswer answer = net_attach(server_, own);
  ASSERT_TRUE(answer.status.ok());
  server_.vgpud().kill_hard();
  server_.start();
  EXPECT_EQ(hangs_up_after(answer.lifeline.get(), 1000), -1);
  EXPECT_TRUE(net_attach(server_, own).status.ok());
}

TEST_F(Network, AServerThatEndsItsGuestsTellsThem) {
  const net::KeyPair own = server_.admit("team-a");
  const net::ControlAnswer answer = net_attach(server_, own);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(server_.vgpud().stop(true), 0);
  EXPECT_GE(hangs_up_after(answer.lifeline.get(), kErrorMs), 0);
}

// A guest as the shim makes it: through the plug-in, with its data connection.
protocol::Attachment whole_attach(const NetworkServer& server, const net::KeyPair& own,
                                  int timeout_ms = 20'000) {
  const std::string key = server.folder() + "/guest.key";
  EXPECT_TRUE(net::write_key_file(key, own, true).ok());
  setenv("VGPU_KEY", key.c_str(), 1);
  setenv("VGPU_SERVER_KEY", server.public_key().c_str(), 1);
  const auto plugin = protocol::load_net_plugin(NET_PLUGIN);
  EXPECT_TRUE(plugin.ok()) << plugin.status().to_string();
  protocol::Hello hello = test_hello(uint64_t{64} << 20);
  hello.pid = getpid();
  return protocol::attach_by_plugin(**plugin, server.address(), hello, timeout_ms);
}

TEST_F(Network, CommandsGoThroughAndTheGatesDeathIsAnError) {
  const net::KeyPair own = server_.admit("team-a");
  const protocol::Attachment attachment = whole_attach(server_, own);
  ASSERT_TRUE(attachment.status.ok()) << attachment.status.to_string();
  Guest guest(attachment.channel.get());
  guest.enter_context();
  const uint64_t base = attachment.reply.device_range.base;
  ASSERT_EQ(guest.map(base, 4 << 20), 0);
  guest.write_inline(base + 10, "over a network");
  EXPECT_EQ(guest.read(base + 10, 14), "over a network");
  const int liveness = attachment.channel->transport().liveness_fd();
  EXPECT_EQ(hangs_up_after(liveness, 100), -1);
  kill(server_.gates().at(0), SIGKILL);
  EXPECT_GE(hangs_up_after(liveness, kErrorMs), 0);
  EXPECT_TRUE(no_guests());
}

TEST_F(Network, TheControlPlanesWordEndsTheDataConnection) {
  const net::KeyPair own = server_.admit("team-a");
  const protocol::Attachment attachment = whole_attach(server_, own);
  ASSERT_TRUE(attachment.status.ok()) << attachment.status.to_string();
  server_.revoke("team-a");
  EXPECT_GE(hangs_up_after(attachment.channel->transport().liveness_fd(), kErrorMs), 0);
  EXPECT_TRUE(no_guests());
}

TEST_F(Network, AWholeGuestGoesOnWhileVgpudIsStartedAgain) {
  const net::KeyPair own = server_.admit("team-a");
  const protocol::Attachment attachment = whole_attach(server_, own);
  ASSERT_TRUE(attachment.status.ok()) << attachment.status.to_string();
  Guest guest(attachment.channel.get());
  guest.enter_context();
  server_.vgpud().kill_hard();
  server_.start();
  const uint64_t base = attachment.reply.device_range.base;
  ASSERT_EQ(guest.map(base, 4 << 20), 0);
  guest.write_inline(base, "still");
  EXPECT_EQ(guest.read(base, 5), "still");
}

TEST_F(Network, AWholeGuestThatIsKilledHoldsNothing) {
  const net::KeyPair own = server_.admit("team-a");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t guest = fork();
  if (guest == 0) {
    const protocol::Attachment attachment = whole_attach(server_, own);
    if (!attachment.status.ok()) _exit(1);
    if (write(ends[1], "x", 1) != 1) _exit(2);
    for (;;) pause();
  }
  char byte = 0;
  close(ends[1]);
  ASSERT_EQ(read(ends[0], &byte, 1), 1) << "the guest did not start";
  close(ends[0]);
  ASSERT_EQ(server_.guests().size(), 1u);
  kill(guest, SIGKILL);
  const double begin = now_ms();
  waitpid(guest, nullptr, 0);
  EXPECT_TRUE(no_guests());
  EXPECT_LT(now_ms() - begin, kFreedMs);
}

TEST_F(Network, AProviderThatIsNotOfferedIsRefused) {
  const net::KeyPair own = server_.admit("team-a");
  protocol::NetAttach asked;
  asked.hello = test_hello();
  asked.provider = "shm";
  const net::ControlAnswer answer = net_attach(server_, own, asked);
  EXPECT_EQ(answer.cuda_error, CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(answer.status.text().find("no provider shm"), std::string::npos);
}

std::vector<std::string> names_in(const char* folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  return names;
}

// The program sees one descriptor and no signal of ours.
TEST_F(Network, TheProgramSeesLittleOfIt) {
  const net::KeyPair own = server_.admit("team-a");
  const auto files = names_in("/proc/self/fd");
  const auto threads = names_in("/proc/self/task");
  const net::ControlAnswer answer = net_attach(server_, own);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_EQ(names_in("/proc/self/fd").size(), files.size() + 1);
  size_t more = 0;
  for (const std::string& thread : names_in("/proc/self/task")) {
    if (std::find(threads.begin(), threads.end(), thread) != threads.end()) continue;
    ++more;
    std::ifstream status("/proc/self/task/" + thread + "/status");
    std::string line, blocked;
    while (std::getline(status, line)) {
      if (line.starts_with("SigBlk:")) blocked = line.substr(line.find_last_of("\t ") + 1);
    }
    // All but SIGKILL, SIGSTOP and the two that belong to the C library.
    EXPECT_EQ(blocked, "fffffffe7ffbfeff") << thread;
  }
  EXPECT_GE(more, 1u);
}

TEST_F(Network, AFailedAttachLeavesNothing) {
  const auto files = names_in("/proc/self/fd");
  const auto threads = names_in("/proc/self/task");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(net_attach(server_, fresh_keys()).status.ok());
  EXPECT_TRUE(eventually([&] { return names_in("/proc/self/task").size() == threads.size(); }));
  EXPECT_EQ(names_in("/proc/self/fd").size(), files.size());
}

}  // namespace
}  // namespace vgpu::testing
