// What a hostile peer may say: it ends the connection, and changes nothing that is not its own.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "net/fabric/gate_mover.h"
#include "net/fabric/guest_mover.h"
#include "tests/unit/net/fake_link.h"

namespace vgpu::net {
namespace {

using protocol::ChannelSizes;
using protocol::ChannelView;

constexpr ChannelSizes kSizes{protocol::kRingBytesMin, 64 * 1024, 64 * 1024};

struct Ends {
  Ends()
      : memory(static_cast<std::byte*>(std::aligned_alloc(4096, kSizes.total_bytes())), &std::free),
        view((std::memset(memory.get(), 0, kSizes.total_bytes()), memory.get()), kSizes),
        own(1, view.down_slab()),
        peer(2, view.ring_window(kSizes)) {
    testing::FakeLink::join(&own, &peer);
  }
  struct View : ChannelView {
    using ChannelView::ChannelView;
    std::span<std::byte> ring_window(const ChannelSizes& sizes) const {
      return {ring(), sizes.ring_bytes + sizes.up_bytes};
    }
  };
  std::unique_ptr<std::byte, void (*)(void*)> memory;
  View view;
  testing::FakeLink own, peer;
};

using Bytes = std::vector<std::byte>;

void append(Bytes* to, const void* data, size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  to->insert(to->end(), from, from + bytes);
  to->resize(round_up_8(to->size()));
}

template <typename Header>
Bytes finish(Bytes message, Header header) {
  header.header.bytes = static_cast<uint32_t>(message.size());
  std::memcpy(message.data(), &header, sizeof(header));
  return message;
}

Bytes update(UpdateHeader header, const std::vector<Expectation>& expectations = {},
             uint32_t inline_bytes = 0) {
  header.header.kind = MessageKind::kUpdate;
  header.expectations = static_cast<uint32_t>(expectations.size());
  header.inline_bytes = inline_bytes;
  Bytes message;
  append(&message, &header, sizeof(header));
  for (const Expectation& each : expectations) append(&message, &each, sizeof(each));
  const Bytes zeros(inline_bytes);
  append(&message, zeros.data(), zeros.size());
  return finish(std::move(message), header);
}

Bytes report(ReportHeader header, const std::vector<ReplyEntry>& replies = {}) {
  header.header.kind = MessageKind::kReport;
  header.replies = static_cast<uint16_t>(replies.size());
  Bytes message;
  append(&message, &header, sizeof(header));
  for (const ReplyEntry& each : replies) {
    append(&message, &each, sizeof(each));
    const Bytes zeros(std::min<size_t>(each.payload_bytes, 4096));
    append(&message, zeros.data(), zeros.size());
    const Bytes more(std::min<size_t>(each.down_bytes, 4096));
    append(&message, more.data(), more.size());
  }
  return finish(std::move(message), header);
}

// Whether the gate goes on after this message.
bool gate_takes(const std::vector<Bytes>& messages) {
  Ends ends;
  GateMover gate(ends.view);
  EXPECT_TRUE(gate.connect(&ends.own, {}).ok());
  for (const Bytes& each : messages) ends.own.slip_in(each);
  for (int i = 0; i < 100; ++i) (void)gate.poll();
  EXPECT_EQ(gate.gone(), !gate.error().ok());
  return !gate.gone();
}

bool guest_takes(const std::vector<Bytes>& messages) {
  Ends ends;
  GuestMover guest(ends.view);
  EXPECT_TRUE(guest.connect(&ends.own, {}).ok());
  for (const Bytes& each : messages) ends.own.slip_in(each);
  for (int i = 0; i < 100; ++i) (void)guest.poll();
  EXPECT_EQ(guest.gone(), !guest.error().ok());
  return !guest.gone();
}

UpdateHeader with_tail(uint64_t tail, uint64_t acked = 0) {
  UpdateHeader header{};
  header.tail = tail;
  header.header.acked = acked;
  return header;
}

TEST(Hostile, UpdatesThatTheGateTakesAndThoseThatItDoesNot) {
  EXPECT_TRUE(gate_takes({update(with_tail(64), {}, 64)}));
  EXPECT_TRUE(gate_takes({update(with_tail(4096))}));
  EXPECT_FALSE(gate_takes({update(with_tail(64), {}, 48)})) << "other bytes than it published";
  EXPECT_FALSE(gate_takes({update(with_tail(72))})) << "not aligned";
  EXPECT_FALSE(gate_takes({update(with_tail(kSizes.ring_bytes + 16))}));
  EXPECT_FALSE(gate_takes({update(with_tail(4096)), update(with_tail(2048))})) << "moves back";
  EXPECT_FALSE(gate_takes({update(with_tail(0, 1))})) << "acknowledges what was never sent";
  UpdateHeader finished{};
  finished.finished = 1;
  EXPECT_FALSE(gate_takes({update(finished)})) << "a call that it does not have";
}

TEST(Hostile, ExpectationsMustExist) {
  EXPECT_TRUE(gate_takes({update({}, {{3, 0, 0, kSizes.down_bytes}})}));
  EXPECT_FALSE(gate_takes({update({}, {{protocol::kReplySlots, 0, 0, 0}})}));
  EXPECT_FALSE(gate_takes({update({}, {{3, 0, 1, kSizes.down_bytes}})}));
  EXPECT_FALSE(gate_takes({update({}, {{3, 0, ~uint64_t{0}, 2}})}));
  EXPECT_FALSE(gate_takes({update({}, {{3, 0, 0, 0}, {3, 0, 0, 0}})})) << "a slot twice";
}

TEST(Hostile, ReportsThatTheGuestTakesAndThoseThatItDoesNot) {
  EXPECT_TRUE(guest_takes({report({})}));
  ReportHeader header{};
  header.head = 16;
  EXPECT_FALSE(guest_takes({report(header)})) << "a head beyond what was sent";
  header = {};
  header.posted = 1;
  EXPECT_FALSE(guest_takes({report(header)})) << "a call without its entry";
  header = {};
  header.flags = 2;
  EXPECT_FALSE(guest_takes({report(header)}));
  header = {};
  header.calls = 200;
  EXPECT_FALSE(guest_takes({report(header)}));
  EXPECT_FALSE(guest_takes({report({}, {{0, 0, 8, 0}})})) << "an answer that nobody waits for";
  EXPECT_FALSE(guest_takes({report({}, {{protocol::kReplySlots, 0, 8, 0}})}));
  EXPECT_FALSE(guest_takes({update({})})) << "what only a guest says";
}

TEST(Hostile, AnswersAreAsLongAsWasAskedFor) {
  for (const uint32_t bytes : {16u, 17u}) {
    Ends ends;
    GuestMover guest(ends.view);
    EXPECT_TRUE(guest.connect(&ends.own, {}).ok());
    guest.expect(5, 1024, 16);
    ends.view.header()->tail.position.store(64);
    while (guest.pending()) (void)guest.flush();
    ends.own.slip_in(report({}, {{5, 0, 0, bytes}}));
    for (int i = 0; i < 50; ++i) (void)guest.poll();
    EXPECT_EQ(guest.gone(), bytes == 17);
  }
}

// Any bytes at all: in the gate nothing changes but what a guest may change.
TEST(Hostile, MutatedMessagesTouchNothingElse) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    Ends ends;
    GateMover gate(ends.view);
    EXPECT_TRUE(gate.connect(&ends.own, {}).ok());
    std::memset(ends.view.down_slab().data(), 0x5a, kSizes.down_bytes);
    for (int i = 0; i < 6; ++i) {
      Bytes message =
          update(with_tail(16 * (random() % 100)),
                 {{static_cast<uint32_t>(random() % 260), 0, random() % 70'000, random() % 70'000}},
                 static_cast<uint32_t>(random() % 2 * 64));
      for (uint64_t times = random() % 4; times > 0; --times)
        message[random() % message.size()] = static_cast<std::byte>(random());
      if (random() % 8 == 0) message.resize(random() % message.size());
      ends.own.slip_in(std::move(message));
    }
    for (int i = 0; i < 30; ++i) (void)gate.poll();
    const auto* semaphores = reinterpret_cast<const std::byte*>(ends.view.semaphores());
    for (size_t i = 0; i < protocol::kPageBytes; ++i) ASSERT_EQ(semaphores[i], std::byte{0});
    for (const std::byte each : ends.view.down_slab()) ASSERT_EQ(each, std::byte{0x5a});
    for (const std::byte each : ends.view.up_slab()) ASSERT_EQ(each, std::byte{0});
    ASSERT_EQ(ends.view.header()->head.position.load(), 0u);
  }
}

// In the guest likewise: its ring, its tail and its up-slab stay.
TEST(Hostile, MutatedReportsTouchNothingElse) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    std::mt19937_64 random(seed);
    Ends ends;
    GuestMover guest(ends.view);
    EXPECT_TRUE(guest.connect(&ends.own, {}).ok());
    guest.expect(7, 0, 256);
    ends.view.header()->tail.position.store(64);
    while (guest.pending()) (void)guest.flush();
    for (int i = 0; i < 6; ++i) {
      ReportHeader header{};
      header.head = 16 * (random() % 6);
      header.sequences[random() % kSequences] = random() % 9;
      Bytes message =
          report(header, {{random() % 2 == 0 ? 7u : 9u, 1, static_cast<uint32_t>(random() % 120),
                           static_cast<uint32_t>(random() % 300)}});
      for (uint64_t times = random() % 4; times > 0; --times)
        message[random() % message.size()] = static_cast<std::byte>(random());
      if (random() % 8 == 0) message.resize(random() % message.size());
      ends.own.slip_in(std::move(message));
    }
    for (int i = 0; i < 30; ++i) (void)guest.poll();
    ASSERT_EQ(ends.view.header()->tail.position.load(), 64u);
    ASSERT_LE(ends.view.header()->head.position.load(), 64u);
    for (const std::byte each : ends.view.ring_window(kSizes)) ASSERT_EQ(each, std::byte{0});
    for (const std::byte each : ends.view.down_slab().subspan(256)) ASSERT_EQ(each, std::byte{0});
  }
}

}  // namespace
}  // namespace vgpu::net
