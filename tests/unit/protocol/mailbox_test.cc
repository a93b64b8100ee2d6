// Mail between a host and its virtual machine, and what a hostile one may write.
// SPDX-License-Identifier: Apache-2.0
#include "protocol/mailbox/mailbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/mapping.h"

namespace vgpu::protocol {
namespace {

struct Post {
  Post() {
    Result<Mapping> made = Mapping::map_private(kRegionControlBytes);
    if (!made.ok()) std::abort();
    memory = std::move(made).value();
    host = std::make_unique<Mailbox>(memory.data(), true);
    guest = std::make_unique<Mailbox>(memory.data(), false);
  }
  RegionHeader* header() { return reinterpret_cast<RegionHeader*>(memory.data()); }

  // As a hostile guest: a header at the front of an empty ring, and a tail behind it.
  MailResult forged(const MailHeader& mail, uint64_t tail) {
    std::memcpy(memory.data() + kMailToHostOffset, &mail, sizeof(mail));
    header()->to_host_tail.position.store(tail);
    Mail got;
    const MailResult result = host->receive(&got);
    EXPECT_EQ(host->receive(&got), result == MailResult::kMail ? MailResult::kEmpty : result);
    host->reset();
    guest->reset();
    return result;
  }

  Mapping memory;
  std::unique_ptr<Mailbox> host, guest;
};

std::vector<uint8_t> bytes_of(size_t count, uint8_t first) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(first + i);
  return bytes;
}

TEST(Mailbox, CarriesBothWaysInOrder) {
  Post post;
  Mail mail;
  EXPECT_EQ(post.host->receive(&mail), MailResult::kEmpty);
  ASSERT_TRUE(post.guest->send(MailKind::kSay, 7, bytes_of(33, 1)).ok());
  ASSERT_TRUE(post.guest->send(MailKind::kBye, 8).ok());
  ASSERT_TRUE(post.host->send(MailKind::kSay, 9, bytes_of(1, 5)).ok());
  ASSERT_EQ(post.host->receive(&mail), MailResult::kMail);
  EXPECT_EQ(mail.kind, MailKind::kSay);
  EXPECT_EQ(mail.connection, 7u);
  EXPECT_EQ(mail.bytes, bytes_of(33, 1));
  ASSERT_EQ(post.host->receive(&mail), MailResult::kMail);
  EXPECT_EQ(mail.kind, MailKind::kBye);
  EXPECT_EQ(mail.connection, 8u);
  EXPECT_TRUE(mail.bytes.empty());
  EXPECT_EQ(post.host->receive(&mail), MailResult::kEmpty);
  ASSERT_EQ(post.guest->receive(&mail), MailResult::kMail);
  EXPECT_EQ(mail.connection, 9u);
}

TEST(Mailbox, WrapsAroundTheRingsEnd) {
  Post post;
  Mail mail;
  for (uint32_t i = 0; i < 64; ++i) {  // 64 times 50,000 bytes: a dozen laps
    const std::vector<uint8_t> bytes = bytes_of(50'000 + i, static_cast<uint8_t>(i));
    ASSERT_TRUE(post.guest->send(MailKind::kSay, i, bytes).ok());
    ASSERT_EQ(post.host->receive(&mail), MailResult::kMail);
    ASSERT_EQ(mail.bytes, bytes) << i;
  }
}

TEST(Mailbox, FullIsSaidAndEndsWhenThePeerReads) {
  Post post;
  Mail mail;
  const std::vector<uint8_t> large(kControlMessageBytesMax);
  int sent = 0;
  while (post.guest->send(MailKind::kSay, 0, large).ok()) ++sent;
  EXPECT_EQ(sent, 3);  // four and their headers do not fit
  EXPECT_EQ(post.guest->send(MailKind::kSay, 0, large).code(), StatusCode::kResourceExhausted);
  ASSERT_EQ(post.host->receive(&mail), MailResult::kMail);
  EXPECT_TRUE(post.guest->send(MailKind::kSay, 0, large).ok());
  const std::vector<uint8_t> larger(kControlMessageBytesMax + 1);
  EXPECT_EQ(post.guest->send(MailKind::kSay, 0, larger).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(post.guest->send(MailKind::kBye, kVmConnectionsMax).code(),
            StatusCode::kInvalidArgument);
}

TEST(Mailbox, WhatCannotBeIsMalformedForGood) {
  Post post;
  const auto say = static_cast<uint16_t>(MailKind::kSay);
  EXPECT_EQ(post.forged({16, say, 0, 0}, 32), MailResult::kMail);
  EXPECT_EQ(post.forged({16, say, 0, 0}, kMailRingBytes + 16), MailResult::kMalformed);
  EXPECT_EQ(post.forged({16, say, 0, 0}, 15), MailResult::kMalformed);
  EXPECT_EQ(post.forged({16, say, 0, 0}, 16), MailResult::kMalformed);  // longer than what is there
  EXPECT_EQ(post.forged({UINT32_MAX, say, 0, 0}, 64), MailResult::kMalformed);
  EXPECT_EQ(post.forged({kControlMessageBytesMax + 1, say, 0, 0}, 128 * 1024),
            MailResult::kMalformed);
  EXPECT_EQ(post.forged({16, 0, 0, 0}, 32), MailResult::kMalformed);
  EXPECT_EQ(post.forged({16, 3, 0, 0}, 32), MailResult::kMalformed);
  EXPECT_EQ(post.forged({16, say, kVmConnectionsMax, 0}, 32), MailResult::kMalformed);
}

TEST(Mailbox, TailThatMovesBackAndForeignHeadsAreNotBelieved) {
  Post post;
  Mail mail;
  ASSERT_TRUE(post.guest->send(MailKind::kSay, 0, bytes_of(16, 0)).ok());
  ASSERT_EQ(post.host->receive(&mail), MailResult::kMail);
  post.header()->to_host_tail.position.store(0);
  EXPECT_EQ(post.host->receive(&mail), MailResult::kMalformed);
  post.header()->to_guest_head.position.store(64);  // nothing was sent yet
  EXPECT_EQ(post.host->send(MailKind::kBye, 0).code(), StatusCode::kResourceExhausted);
}

TEST(RegionCut, LeavesEveryPieceRoomForAChannel) {
  const Result<RegionCut> cut = RegionCut::of(64 << 20, 3);
  ASSERT_TRUE(cut.ok());
  EXPECT_GE(cut->offset_of(0), kRegionControlBytes);
  EXPECT_LE(cut->offset_of(2) + cut->piece_bytes, uint64_t{64} << 20);
  EXPECT_EQ(cut->piece_bytes % kPageBytes, 0u);
  const ChannelSizes sizes = ChannelSizes::fitting(cut->piece_bytes);
  EXPECT_TRUE(sizes.check().ok());
  EXPECT_LE(sizes.total_bytes(), cut->piece_bytes);
  EXPECT_FALSE(RegionCut::of(kRegionControlBytes, 1).ok());
  EXPECT_FALSE(RegionCut::of(2 << 20, 16).ok());
  EXPECT_FALSE(RegionCut::of(64 << 20, 0).ok());
  EXPECT_FALSE(RegionCut::of(uint64_t{64} << 30, kVmConnectionsMax + 1).ok());
  EXPECT_FALSE(RegionCut::of(kRegionBytesMax + 1, 1).ok());
}

TEST(ChannelSizes, FitWhatThereIsAndAreNeverMoreThanTheDefaults) {
  const ChannelSizes defaults;
  const ChannelSizes large = ChannelSizes::fitting(uint64_t{1} << 40);
  EXPECT_EQ(large.total_bytes(), defaults.total_bytes());
  for (uint64_t bytes = 0; bytes < (uint64_t{1} << 27); bytes = bytes * 5 / 4 + 4096) {
    const ChannelSizes sizes = ChannelSizes::fitting(bytes);
    if (!sizes.check().ok()) continue;
    EXPECT_LE(sizes.total_bytes(), bytes);
  }
  EXPECT_FALSE(ChannelSizes::fitting(256 * 1024).check().ok());
  EXPECT_TRUE(ChannelSizes::fitting(1 << 20).check().ok());
}

}  // namespace
}  // namespace vgpu::protocol
