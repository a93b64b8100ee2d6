// The emulated network: as slow as it was asked to be, and in order.
// SPDX-License-Identifier: Apache-2.0
#include "net/fabric/emulated_link.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "tests/unit/net/fake_link.h"

namespace vgpu::net {
namespace {

// Collects what comes.
class Inbox final : public LinkSink {
 public:
  bool received(std::span<const std::byte> message) override {
    numbers.push_back(static_cast<uint8_t>(message[0]));
    return true;
  }
  void written(uint64_t token) override { tokens.push_back(token); }
  std::vector<uint8_t> numbers;
  std::vector<uint64_t> tokens;
};

struct Pair {
  explicit Pair(const Emulation& emulation)
      : own_window(4096), peer_window(64 * 1024), peer(2, peer_window) {
    auto below = std::make_unique<testing::FakeLink>(1, own_window);
    below_peer = below.get();
    testing::FakeLink::join(below.get(), &peer);
    link = std::make_unique<EmulatedLink>(std::move(below), emulation);
  }
  std::vector<std::byte> own_window, peer_window;
  testing::FakeLink peer;
  testing::FakeLink* below_peer;
  std::unique_ptr<EmulatedLink> link;
  Inbox inbox, peer_inbox;
};

void send(Link* link, uint8_t number, LinkSink* sink) {
  const std::array<std::byte, 8> message{std::byte{number}};
  while (link->send(message) == Sent::kFull) (void)link->poll(sink);
}

TEST(Emulated, SettingsAreReadAndFaultsAreSaid) {
  const Result<Emulation> all = parse_emulation("rtt=100us,gbps=10,jitter=5us,cut=200,seed=7");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->round_trip_ns, 100'000);
  EXPECT_EQ(all->jitter_ns, 5'000);
  EXPECT_EQ(all->bits_per_s, 10e9);
  EXPECT_EQ(all->seed, 7u);
  EXPECT_EQ(all->cut_after, 200u);
  EXPECT_TRUE(parse_emulation("").ok());
  for (const char* wrong : {"rtt", "rtt=5", "rtt=-1us", "gbps=0", "gbps=x", "cut=0", "speed=1"})
    EXPECT_FALSE(parse_emulation(wrong).ok()) << wrong;
}

TEST(Emulated, NothingArrivesBeforeItsTimeAndAllInOrder) {
  constexpr int64_t kRoundTripNs = 20'000'000;
  Pair pair({.round_trip_ns = kRoundTripNs, .jitter_ns = 2'000'000, .seed = 3});
  const uint64_t start = monotonic_ns();
  for (uint8_t i = 0; i < 20; ++i) send(pair.link.get(), i, &pair.inbox);
  uint64_t first = 0;
  while (pair.peer_inbox.numbers.size() < 20) {
    (void)pair.link->poll(&pair.inbox);
    (void)pair.peer.poll(&pair.peer_inbox);
    if (first == 0 && !pair.peer_inbox.numbers.empty()) first = monotonic_ns();
  }
  EXPECT_GE(first - start, static_cast<uint64_t>(kRoundTripNs / 2));
  for (uint8_t i = 0; i < 20; ++i) EXPECT_EQ(pair.peer_inbox.numbers[i], i);
  // The way back takes the other half.
  const uint64_t back = monotonic_ns();
  send(&pair.peer, 99, &pair.peer_inbox);
  while (pair.inbox.numbers.empty()) (void)pair.link->poll(&pair.inbox);
  EXPECT_GE(monotonic_ns() - back, static_cast<uint64_t>(kRoundTripNs / 2));
}

TEST(Emulated, BandwidthIsKeptAndSourcesMayBeUsedAgainAtOnce) {
  Pair pair({.bits_per_s = 8e6});  // a byte each microsecond
  std::vector<std::byte> source(10'000, std::byte{7});
  const uint64_t start = monotonic_ns();
  ASSERT_EQ(pair.link->write(source, 100, 5), Sent::kDone);
  (void)pair.link->poll(&pair.inbox);
  EXPECT_EQ(pair.inbox.tokens, std::vector<uint64_t>{5});
  std::fill(source.begin(), source.end(), std::byte{0});
  send(pair.link.get(), 1, &pair.inbox);
  while (pair.peer_inbox.numbers.empty()) {
    (void)pair.link->poll(&pair.inbox);
    (void)pair.peer.poll(&pair.peer_inbox);
  }
  EXPECT_GE(monotonic_ns() - start, 10'000'000u);
  EXPECT_EQ(pair.peer_window[100], std::byte{7});
  EXPECT_EQ(pair.peer_window[10'099], std::byte{7});
}

TEST(Emulated, ACutLosesWhatIsHeldBackAndStays) {
  uint64_t sent = 0, messages = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Pair pair({.round_trip_ns = 1'000'000'000, .seed = seed, .cut_after = 20});
    const std::array<std::byte, 8> message{};
    while (pair.link->send(message) == Sent::kDone) ++sent;
    EXPECT_EQ(pair.link->send(message), Sent::kGone);
    EXPECT_EQ(pair.link->poll(&pair.inbox), -1);
    while (pair.peer.poll(&pair.peer_inbox) > 0) {
    }
    messages += pair.peer_inbox.numbers.size();
  }
  EXPECT_EQ(messages, 0u);
  EXPECT_GT(sent, 50u * 10);
  EXPECT_LT(sent, 50u * 30);
}

}  // namespace
}  // namespace vgpu::net
