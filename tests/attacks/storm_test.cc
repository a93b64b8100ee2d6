// Guests, workers and servers that are killed at any moment, again and again: nothing is lost,
// nothing stays, and nobody else hangs. Seconds: VGPU_TEST_STORM_SECONDS, default 8.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <vector>

#include "base/env.h"
#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr size_t kGuests = 4;

// A guest that attaches and works for as long as it lives.
pid_t start_guest(const protocol::Address& address) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (;;) {
    protocol::Attachment own = protocol::attach(address, test_hello(16 * kMiB), 20'000);
    if (!own.status.ok()) {
      poll(nullptr, 0, 5);
      continue;
    }
    Guest guest(own.channel.get());
    guest.enter_context();
    const uint64_t base = own.reply.device_range.base;
    for (int i = 0; i < 20; ++i) {
      wire::MemMapArgs map;
      map.address = base;
      map.bytes = 2 * kMiB;
      if (i == 0 && guest.map(base, 2 * kMiB) != 0) break;
      guest.write_inline(base, "storm " + std::to_string(i));
      pollfd gone{own.channel->transport().liveness_fd(), POLLRDHUP, 0};
      if (poll(&gone, 1, 0) > 0 || guest.read(base, 5) != "storm") break;
    }
  }
}

// A worker of the server's: its children, but for those that wait to be reaped.
pid_t some_worker(pid_t server, std::mt19937* random) {
  std::vector<pid_t> workers;
  const std::string path =
      "/proc/" + std::to_string(server) + "/task/" + std::to_string(server) + "/children";
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    for (int pid; std::fscanf(file, "%d", &pid) == 1;) workers.push_back(pid);
    std::fclose(file);
  }
  return workers.empty() ? 0 : workers[(*random)() % workers.size()];
}

size_t children_of(pid_t server) {
  size_t count = 0;
  const std::string path =
      "/proc/" + std::to_string(server) + "/task/" + std::to_string(server) + "/children";
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    for (int pid; std::fscanf(file, "%d", &pid) == 1;) ++count;
    std::fclose(file);
  }
  return count;
}

TEST(Storm, KilledAtAnyMoment) {
  std::mt19937 random(std::random_device{}());
  ServerProcess server;
  server.start();
  ASSERT_TRUE(server.info().has_value());
  std::vector<pid_t> guests(kGuests);
  for (pid_t& guest : guests) guest = start_guest(server.address());
  const double until =
      now_ms() + 1000.0 * static_cast<double>(env_integer("VGPU_TEST_STORM_SECONDS", 8));
  int killed[3] = {};
  while (now_ms() < until) {
    poll(nullptr, 0, static_cast<int>(random() % 12));
    const unsigned what = random() % 20;
    if (what == 0) {
      server.kill_hard();
      server.start();
      ASSERT_TRUE(server.info().has_value()) << "no server after " << killed[2] << " kills of it";
      ++killed[2];
    } else if (what < 8) {
      if (const pid_t worker = some_worker(server.pid(), &random); worker > 1) {
        (void)kill(worker, SIGKILL);
        ++killed[1];
      }
    } else {
      pid_t& guest = guests[random() % kGuests];
      kill(guest, SIGKILL);
      waitpid(guest, nullptr, 0);
      guest = start_guest(server.address());
      ++killed[0];
    }
  }
  for (const pid_t guest : guests) {
    kill(guest, SIGKILL);
    waitpid(guest, nullptr, 0);
  }
  std::printf("killed: %d guests, %d workers, %d servers\n", killed[0], killed[1], killed[2]);
  EXPECT_TRUE(eventually([&] { return server.info() && server.info()->guests.empty(); }));
  const auto info = server.info();
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->devices[0].granted_bytes, 0u);
  // What waits for guests, and nothing else.
  EXPECT_TRUE(eventually([&] { return children_of(server.pid()) <= 2; }));
  const auto doors = std::filesystem::directory_iterator(server.path() + ".workers");
  EXPECT_LE(std::distance(begin(doors), end(doors)), 2);
  protocol::Attachment last = protocol::attach(server.address(), test_hello(900 * kMiB), 20'000);
  EXPECT_TRUE(last.status.ok()) << "all memory is there again: " << last.status.to_string();
}

}  // namespace
}  // namespace vgpu::testing
