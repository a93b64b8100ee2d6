// Guests on another host, over the loopback network: they come, and one side or the other is
// killed. VGPU_TEST_PROVIDER and VGPU_TEST_HOST name another provider and the address to listen at.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/lifecycle/server_process.h"
#include "tests/net/plain_meet.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr double kErrorsMs = 5000;  // until a guest's calls fail
constexpr double kMemoryMs = 3000;  // until its memory is back
constexpr int kTimeoutMs = 20'000;

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  const std::string pid = std::to_string(parent);
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; file >> child;) found.push_back(child);
  return found;
}

uint64_t cpu_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  uint64_t ticks = 0;
  for (int i = 1; file >> word; ++i) {
    if (i == 14 || i == 15) ticks += std::strtoull(word.c_str(), nullptr, 10);
  }
  return ticks;
}

const char* setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}
const char* provider() { return setting("VGPU_TEST_PROVIDER", "tcp"); }

Result<net::Met> meet(const std::string& path, const protocol::Hello& hello) {
  Result<net::Met> met = net::meet(path, hello, kTimeoutMs);
  if (met.ok()) met->target.provider.name = provider();
  return met;
}

// A guest with its channel, watched as the shim does.
class RemoteGuest {
 public:
  RemoteGuest(const std::string& path, uint64_t bytes) {
    Result<net::Met> met = meet(path, test_hello(bytes));
    status_ = met.status();
    if (!met.ok()) return;
    reply = met->reply;
    auto transport = net::connect_fabric(met->target, reply.sizes, kTimeoutMs);
    status_ = transport.status();
    if (!transport.ok()) return;
    auto opened = protocol::GuestChannel::open(std::move(*transport));
    status_ = opened.status();
    if (!opened.ok()) return;
    channel = std::move(*opened);
    guest.emplace(channel.get());
    watcher_ = std::thread([this] {
      while (!stop_) {
        pollfd watched{channel->transport().liveness_fd(), POLLRDHUP, 0};
        if (poll(&watched, 1, 20) > 0) return channel->mark_dead();
      }
    });
  }
  ~RemoteGuest() {
    stop_ = true;
    if (watcher_.joinable()) watcher_.join();
  }
  const Status& status() const { return status_; }

  protocol::HelloReply reply;
  std::unique_ptr<protocol::GuestChannel> channel;
  std::optional<Guest> guest;

 private:
  Status status_;
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

// Maps some memory and uses it.
void work(RemoteGuest* remote) {
  ASSERT_TRUE(remote->status().ok()) << remote->status().to_string();
  remote->guest->enter_context();
  const uint64_t base = remote->reply.device_range.base;
  ASSERT_EQ(remote->guest->map(base, 4 * kMiB), 0);
  remote->guest->write_inline(base + 10, "over a network");
  EXPECT_EQ(remote->guest->read(base + 10, 14), "over a network");
}

class Remote : public ::testing::Test {
 protected:
  void SetUp() override {
    server_.start();
    ASSERT_TRUE(server_.info().has_value());
    path_ = server_.path() + ".gate";
    const pid_t parent = getpid();
    gate_ = fork();
    if (gate_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      execl(PLAIN_GATE, PLAIN_GATE, "--listen", path_.c_str(), "--server", server_.path().c_str(),
            "--provider", provider(), "--host", setting("VGPU_TEST_HOST", "127.0.0.1"), nullptr);
      _exit(127);
    }
    ASSERT_TRUE(eventually([&] { return access(path_.c_str(), F_OK) == 0; }));
  }
  void TearDown() override {
    kill(gate_, SIGKILL);
    waitpid(gate_, nullptr, 0);
  }
  size_t guests() {
    auto info = server_.info();
    return info ? info->guests.size() : 999;
  }
  // Calls fail soon, and the memory comes back.
  void expect_end(RemoteGuest* remote) {
    const double start = now_ms();
    while (remote->guest->synchronize() == 0 && now_ms() - start < 2 * kErrorsMs) {
    }
    EXPECT_LT(now_ms() - start, kErrorsMs);
    EXPECT_NE(remote->guest->synchronize(), 0);
    EXPECT_TRUE(eventually([&] { return guests() == 0; }));
    EXPECT_LT(now_ms() - start, kErrorsMs + kMemoryMs);
    EXPECT_EQ(server_.info()->devices[0].granted_bytes, 0u);
  }
  pid_t session_process() {
    const std::vector<pid_t> found = children_of(gate_);
    return found.size() == 1 ? found[0] : -1;
  }

  ServerProcess server_;
  std::string path_;
  pid_t gate_ = -1;
};

TEST_F(Remote, AGuestWorksAndItsMemoryComesBack) {
  {
    RemoteGuest remote(path_, 64 * kMiB);
    work(&remote);
    EXPECT_EQ(guests(), 1u);
    EXPECT_EQ(server_.info()->guests[0].used_bytes, 64 * kMiB);
  }
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 0u);
  EXPECT_TRUE(eventually([&] { return children_of(gate_).empty(); })) << "its gate ends too";
}

TEST_F(Remote, WhatNeedsSharedPagesIsNotOffered) {
  RemoteGuest remote(path_, 64 * kMiB);
  ASSERT_TRUE(remote.status().ok());
  EXPECT_EQ(remote.reply.host_range.bytes, 0u);
  const auto& attributes = remote.reply.devices.at(0).attributes;
  for (const CUdevice_attribute each :
       {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED}) {
    EXPECT_EQ(attributes.at(each), 0) << each;
  }
}

TEST_F(Remote, AKilledGuestGivesItsMemoryBack) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    // A program of its own: what a parent has of adapters is of no use to its child.
    setenv("VGPU_TEST_GATE", path_.c_str(), 1);
    setenv("VGPU_TEST_READY", std::to_string(ends[1]).c_str(), 1);
    execl("/proc/self/exe", "remote_test", "--gtest_also_run_disabled_tests",
          "--gtest_filter=RemoteChild.DISABLED_WorksUntilItIsKilled", nullptr);
    _exit(127);
  }
  close(ends[1]);
  char ready = 0;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  ASSERT_EQ(ready, '1');
  EXPECT_EQ(guests(), 1u);
  kill(child, SIGKILL);
  const double start = now_ms();
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return guests() == 0; }));
  EXPECT_LT(now_ms() - start, kMemoryMs);
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 0u);
}

// Run by the test above.
TEST(RemoteChild, DISABLED_WorksUntilItIsKilled) {
  RemoteGuest remote(setting("VGPU_TEST_GATE", ""), 64 * kMiB);
  work(&remote);
  const char ready = ::testing::Test::HasFailure() ? '0' : '1';
  ASSERT_EQ(write(std::atoi(setting("VGPU_TEST_READY", "-1")), &ready, 1), 1);
  for (;;) pause();
}

TEST_F(Remote, AKilledGateEndsItsGuestAlone) {
  RemoteGuest first(path_, 64 * kMiB);
  work(&first);
  const pid_t gate = session_process();
  ASSERT_GT(gate, 0);
  RemoteGuest second(path_, 64 * kMiB);
  work(&second);
  kill(gate, SIGKILL);
  const double start = now_ms();
  while (first.guest->synchronize() == 0 && now_ms() - start < 2 * kErrorsMs) {
  }
  EXPECT_LT(now_ms() - start, kErrorsMs);
  EXPECT_TRUE(eventually([&] { return guests() == 1; }));
  EXPECT_EQ(second.guest->synchronize(), 0) << "the other one goes on";
}

TEST_F(Remote, AKilledWorkerEndsItsGuest) {
  RemoteGuest remote(path_, 64 * kMiB);
  work(&remote);
  ASSERT_EQ(kill(remote.reply.server_pid, SIGKILL), 0);
  expect_end(&remote);
}

TEST_F(Remote, OnlyTheSecretOpensASessionAndOnlyOnce) {
  Result<net::Met> met = meet(path_, test_hello(64 * kMiB));
  ASSERT_TRUE(met.ok()) << met.status().to_string();
  net::FabricTarget wrong = met->target;
  wrong.secret[31] ^= 1;
  EXPECT_FALSE(net::connect_fabric(wrong, met->reply.sizes, 5000).ok());
  auto right = net::connect_fabric(met->target, met->reply.sizes, kTimeoutMs);
  ASSERT_TRUE(right.ok()) << right.status().to_string();
  EXPECT_FALSE(net::connect_fabric(met->target, met->reply.sizes, 2000).ok()) << "a replay";
}

TEST_F(Remote, IdleSidesTakeNoTime) {
  RemoteGuest remote(path_, 64 * kMiB);
  work(&remote);
  const pid_t gate = session_process();
  poll(nullptr, 0, 300);
  const uint64_t before =
      cpu_ticks(gate) + cpu_ticks(getpid()) + cpu_ticks(remote.reply.server_pid);
  poll(nullptr, 0, 2000);
  const uint64_t after = cpu_ticks(gate) + cpu_ticks(getpid()) + cpu_ticks(remote.reply.server_pid);
  EXPECT_LE(after - before, 2u) << "hundredths of a second in two seconds";
}

}  // namespace
}  // namespace vgpu::testing
