// Guests that overwrite what they share with their worker while it reads. Whatever becomes of them,
// a guest beside them and the server notice nothing. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "tests/lifecycle/server_process.h"
#include "tests/support/guest.h"

namespace vgpu::testing {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int kAttackMs = 40;

class ChannelAttack : public ::testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server_.start();
    ASSERT_TRUE(server_.info().has_value());
    victim_ = protocol::attach(server_.address(), test_hello(64 * kMiB), 20'000);
    ASSERT_TRUE(victim_.status.ok());
    steady_ = std::make_unique<Guest>(victim_.channel.get());
    steady_->enter_context();
    ASSERT_EQ(steady_->map(victim_.reply.device_range.base, 2 * kMiB), 0);
  }
  void expect_victim_unharmed(const std::string& text) {
    const uint64_t base = victim_.reply.device_range.base;
    steady_->write_inline(base, text);
    EXPECT_EQ(steady_->read(base, text.size()), text);
  }

  ServerProcess server_;
  protocol::Attachment victim_;
  std::unique_ptr<Guest> steady_;
};

// Where to write, and what: whole words at random, single bits, or a length near a power of two.
void scribble(std::span<std::byte> memory, unsigned seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    const uint64_t at = random() % (memory.size() / 8) * 8;
    uint64_t word = 0;
    std::memcpy(&word, memory.data() + at, 8);
    switch (random() % 3) {
      case 0:
        word = random();
        break;
      case 1:
        word ^= uint64_t{1} << random() % 64;
        break;
      default:
        word = (uint64_t{1} << random() % 64) - random() % 3;
        break;
    }
    std::memcpy(memory.data() + at, &word, 8);
    if (random() % 4 == 0) std::this_thread::yield();
  }
}

// Writes commands as a guest does, so that its worker reads, while `where` is overwritten. In a
// process of its own: what it reads back is nonsense too.
[[noreturn]] void attack(const protocol::Address& address, unsigned seed, bool ring_only) {
  protocol::Attachment own = protocol::attach(address, test_hello(64 * kMiB), 20'000);
  if (!own.status.ok()) _exit(1);
  Guest guest(own.channel.get());
  guest.enter_context();
  const uint64_t base = own.reply.device_range.base;
  if (guest.map(base, 2 * kMiB) != 0) _exit(2);
  const std::span<std::byte> all = own.channel->transport().memory();
  const std::span<std::byte> where =
      ring_only ? all.first(std::min<size_t>(all.size(), 128 << 10)) : all;
  std::thread([where, seed] { scribble(where, seed); }).detach();
  for (;;) guest.write_inline(base + seed % 4096, "as any guest");
}

TEST_P(ChannelAttack, MemoryIsOverwrittenWhileItIsRead) {
  for (unsigned round = 0; round < 12; ++round) {
    const pid_t attacker = fork();
    if (attacker == 0) attack(server_.address(), GetParam() * 100 + round, round % 3 != 0);
    ::poll(nullptr, 0, kAttackMs);
    expect_victim_unharmed("round " + std::to_string(round));
    kill(attacker, SIGKILL);
    waitpid(attacker, nullptr, 0);
  }
  EXPECT_TRUE(eventually([&] { return server_.info()->guests.size() == 1; }));
  EXPECT_EQ(server_.info()->devices[0].granted_bytes, 64 * kMiB);
  expect_victim_unharmed("afterwards");
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChannelAttack, ::testing::Values(1u, 2u, 3u, 4u));

}  // namespace
}  // namespace vgpu::testing
