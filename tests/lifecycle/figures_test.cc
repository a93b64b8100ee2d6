// What a process is told of its own guests, and that it hears of no others.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/session/figures.h"
#include "protocol/transport/control_socket.h"
#include "scheduler/share.h"
#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uid_t kStranger = 65534;

class Figures : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.start();
    const std::string folder = server_.path().substr(0, server_.path().rfind('/'));
    ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      ::kill(child, SIGKILL);
      (void)::waitpid(child, nullptr, 0);
    }
  }

  protocol::FiguresReply figures(const protocol::FiguresRequest& request = {}) {
    auto connection = protocol::connect_unix(server_.path());
    if (!connection.ok()) return {};
    EXPECT_TRUE(protocol::send_frame(connection->get(), protocol::encode_figures(request)).ok());
    const auto frame = protocol::receive_frame(connection->get(), 10'000);
    if (!frame.ok()) return {};
    const auto reply = protocol::decode_figures_reply(frame->bytes);
    EXPECT_TRUE(reply.ok()) << reply.status().to_string();
    return reply.ok() ? *reply : protocol::FiguresReply{};
  }

  // A guest in another process, of this user unless told otherwise; it lives until the test ends.
  pid_t guest_elsewhere(uint64_t bytes, const std::string& label, uid_t user = 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (user != 0 && ::seteuid(user) != 0) ::_exit(1);
      protocol::Hello hello = test_hello(bytes);
      hello.label = label;
      const protocol::Attachment attachment = protocol::attach(server_.address(), hello, 20'000);
      if (attachment.status.ok()) ::pause();
      ::_exit(1);
    }
    children_.push_back(child);
    EXPECT_TRUE(eventually([&] {
      const auto info = server_.info();
      for (const auto& guest : info ? info->guests : std::vector<protocol::GuestInfo>{}) {
        if (guest.pid == child) return true;
      }
      return false;
    }));
    return child;
  }

  ServerProcess server_{{"--socket-mode", "0666"}};
  std::vector<pid_t> children_;
};

TEST_F(Figures, WithoutGuestsWhatOneWouldGet) {
  const protocol::FiguresReply reply = figures();
  EXPECT_EQ(reply.driver, "soft");
  EXPECT_GT(reply.driver_version, 0);
  EXPECT_EQ(reply.driver_release, "");
  ASSERT_EQ(reply.devices.size(), 1u);
  EXPECT_TRUE(reply.guests.empty());
  const auto info = server_.info();
  ASSERT_TRUE(info);
  EXPECT_EQ(reply.devices[0].name, info->devices[0].name);
  EXPECT_EQ(reply.devices[0].memory_bytes, info->devices[0].memory_bytes / 4);
  EXPECT_EQ(reply.devices[0].used_bytes, 0u);
  protocol::FiguresRequest request;
  request.memory_bytes = 5 * kMiB;  // rounded up as grants are
  EXPECT_EQ(figures(request).devices[0].memory_bytes, 6 * kMiB);
  request.memory_bytes = ~uint64_t{0};
  EXPECT_EQ(figures(request).devices[0].memory_bytes, info->devices[0].memory_bytes);
  request.devices = "7";
  EXPECT_TRUE(figures(request).devices.empty());
}

TEST_F(Figures, TheAskingProcessSeesItselfAlone) {
  guest_elsewhere(64 * kMiB, "test");
  protocol::Attachment own = protocol::attach(server_.address(), test_hello(128 * kMiB), 20'000);
  ASSERT_TRUE(own.status.ok()) << own.status.to_string();
  Guest guest(own.channel.get());
  guest.enter_context();
  ASSERT_EQ(guest.map(own.reply.device_range.base, 16 * kMiB), 0);
  EXPECT_TRUE(eventually([&] { return figures().devices[0].used_bytes >= 16 * kMiB; }));
  const protocol::FiguresReply reply = figures();
  ASSERT_EQ(reply.guests.size(), 1u);
  EXPECT_EQ(reply.guests[0].pid, ::getpid());
  EXPECT_EQ(reply.guests[0].session, own.reply.session);
  EXPECT_TRUE(reply.guests[0].caller);
  ASSERT_EQ(reply.guests[0].uses.size(), 1u);
  EXPECT_EQ(reply.guests[0].uses[0].granted_bytes, 128 * kMiB);
  EXPECT_EQ(reply.devices[0].memory_bytes, 128 * kMiB);
  EXPECT_EQ(reply.guests[0].engine_ns.size(), scheduler::kEngines);
}

TEST_F(Figures, AMonitorSeesAllOfItsUserAndName) {
  const pid_t blue = guest_elsewhere(64 * kMiB, "blue");
  guest_elsewhere(32 * kMiB, "red");
  protocol::FiguresReply reply = figures();
  EXPECT_EQ(reply.guests.size(), 2u);
  EXPECT_FALSE(reply.guests.at(0).caller);
  EXPECT_EQ(reply.devices[0].memory_bytes, 96 * kMiB);
  protocol::FiguresRequest request;
  request.label = "blue";
  reply = figures(request);
  ASSERT_EQ(reply.guests.size(), 1u);
  EXPECT_EQ(reply.guests[0].pid, blue);
  EXPECT_EQ(reply.devices[0].memory_bytes, 64 * kMiB);
  request.label = "green";
  EXPECT_TRUE(figures(request).guests.empty());
  ::kill(blue, SIGKILL);
  EXPECT_TRUE(eventually([&] { return figures().guests.size() == 1; }));
}

TEST_F(Figures, NobodySeesOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  guest_elsewhere(64 * kMiB, "blue", kStranger);
  EXPECT_TRUE(figures().guests.empty());  // not even root: it is a guest's view
  EXPECT_NE(figures().devices[0].memory_bytes, 64 * kMiB);
  ASSERT_EQ(::seteuid(kStranger), 0);
  const protocol::FiguresReply reply = figures();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(reply.guests.size(), 1u);
}

}  // namespace
}  // namespace vgpu::testing
