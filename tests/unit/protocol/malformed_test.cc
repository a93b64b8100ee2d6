// Everything a hostile guest can write where the consumer looks.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "protocol/wire/decoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

struct Case {
  const char* name;
  RecordHeader header;
  uint64_t tail;
  const char* says;
};

class Malformed : public testing::TestWithParam<Case> {};

TEST_P(Malformed, EndsTheSession) {
  TestChannel channel;
  std::memcpy(channel.view().ring(), &GetParam().header, sizeof(RecordHeader));
  channel.view().header()->tail.position.store(GetParam().tail);
  Consumer& consumer = channel.worker->consumer();
  EXPECT_EQ(consumer.wait(0), WaitResult::kReady);
  Record record;
  EXPECT_EQ(consumer.peek(&record), PeekResult::kMalformed);
  EXPECT_EQ(consumer.error().code(), StatusCode::kMalformed);
  EXPECT_NE(consumer.error().text().find(GetParam().says), std::string::npos)
      << consumer.error().text();
  // For good: a later repair by the guest changes nothing.
  const RecordHeader good{16, 1, 0, 0, kNoReply};
  std::memcpy(channel.view().ring(), &good, sizeof(good));
  channel.view().header()->tail.position.store(16);
  EXPECT_EQ(consumer.peek(&record), PeekResult::kMalformed);
}

INSTANTIATE_TEST_SUITE_P(
    All, Malformed,
    testing::Values(
        Case{"ZeroBytes", {0, 1, 0, 0, kNoReply}, 64, "multiple of 16"},
        Case{"ShorterThanHeader", {8, 1, 0, 0, kNoReply}, 64, "multiple of 16"},
        Case{"Unaligned", {40, 1, 0, 0, kNoReply}, 64, "multiple of 16"},
        Case{"BeyondTail", {80, 1, 0, 0, kNoReply}, 64, "beyond the tail"},
        Case{"HugeBytes", {0xfffffff0, 1, 0, 0, kNoReply}, 64, "beyond the tail"},
        Case{"BeyondLimit", {kRecordBytesMax + 16, 1, 0, 0, kNoReply}, kRingBytesMin, "limit"},
        Case{"PadNotAtEnd", {64, kPadOp, 0, 0, kNoReply}, 64, "pad does not end"},
        Case{"BlobBeyondRecord", {64, 1, 0, 49, kNoReply}, 64, "blob"},
        Case{"BlobWraps32Bits", {64, 1, 0, 0xffffffff, kNoReply}, 64, "blob"},
        Case{"ReplyOutOfRange", {64, 1, 0, 0, kReplySlots}, 64, "reply slot"},
        Case{"TailBeyondRing", {64, 1, 0, 0, kNoReply}, kRingBytesMin + 16, "tail"},
        Case{"TailUnaligned", {64, 1, 0, 0, kNoReply}, 72, "tail"},
        Case{"TailNegative", {64, 1, 0, 0, kNoReply}, ~uint64_t{15}, "tail"}),
    [](const testing::TestParamInfo<Case>& one) { return one.param.name; });

TEST(MalformedTail, MayNotMoveBack) {
  TestChannel channel;
  const RecordHeader good{64, 1, 0, 0, kNoReply};
  std::memcpy(channel.view().ring(), &good, sizeof(good));
  channel.view().header()->tail.position.store(64);
  Consumer& consumer = channel.worker->consumer();
  Record record;
  ASSERT_EQ(consumer.peek(&record), PeekResult::kRecord);
  consumer.release();
  channel.view().header()->tail.position.store(32);
  EXPECT_EQ(consumer.wait(0), WaitResult::kReady);
  EXPECT_EQ(consumer.peek(&record), PeekResult::kMalformed);
}

TEST(MalformedRecord, WrapAroundTheEndIsRefused) {
  TestChannel channel;
  const ChannelView view = channel.view();
  Consumer& consumer = channel.worker->consumer();
  Record record;
  // Walk to 32 bytes before the end with good records, then claim 64.
  uint64_t position = 0;
  while (position != kRingBytesMin - 32) {
    const uint64_t left = kRingBytesMin - 32 - position;
    const uint32_t bytes = left > kRecordBytesMax ? kRecordBytesMax : static_cast<uint32_t>(left);
    const RecordHeader good{bytes, 1, 0, 0, kNoReply};
    std::memcpy(view.ring() + position, &good, sizeof(good));
    position += bytes;
    view.header()->tail.position.store(position);
    ASSERT_EQ(consumer.peek(&record), PeekResult::kRecord);
    consumer.release();
  }
  const RecordHeader wrapping{64, 1, 0, 0, kNoReply};
  std::memcpy(view.ring() + position, &wrapping, sizeof(wrapping));
  view.header()->tail.position.store(position + 64);
  EXPECT_EQ(consumer.peek(&record), PeekResult::kMalformed);
  EXPECT_NE(consumer.error().text().find("wraps"), std::string::npos);
}

// The copy is what counts: the guest rewriting its record after peek changes nothing that the
// worker holds.
TEST(MalformedRecord, RewritingAfterPeekHasNoEffect) {
  TestChannel channel;
  const RecordHeader good{64, 1, 0, 8, kNoReply};
  std::memcpy(channel.view().ring(), &good, sizeof(good));
  channel.view().header()->tail.position.store(64);
  Record record;
  ASSERT_EQ(channel.worker->consumer().peek(&record), PeekResult::kRecord);
  std::memset(channel.view().ring(), 0xff, 64);
  EXPECT_EQ(record.header.bytes, 64u);
  for (const std::byte byte : record.body) EXPECT_EQ(byte, std::byte{0});
}

TEST(Decode, WantsTheExactSize) {
  struct Args {
    uint64_t a, b;
  };
  alignas(16) std::byte body[48] = {};
  Args args{};
  Blob blob;
  const auto with = [&](uint32_t bytes, uint32_t blob_bytes) {
    return Record{{bytes, 1, 0, blob_bytes, kNoReply}, 1, {body, bytes - 16}};
  };
  EXPECT_TRUE(decode(with(32, 0), &args, &blob));
  EXPECT_TRUE(decode(with(48, 1), &args, &blob));
  EXPECT_TRUE(decode(with(48, 16), &args, &blob));
  EXPECT_FALSE(decode(with(16, 0), &args, &blob));  // too short for the struct
  EXPECT_FALSE(decode(with(48, 0), &args, &blob));  // bytes that nobody explains
  EXPECT_FALSE(decode(with(32, 1), &args, &blob));  // blob does not fit behind the struct
  EXPECT_FALSE(decode(with(48, 17), &args, &blob));
  EXPECT_FALSE(decode(with(48, 0xffffffff), &args, &blob));
}

TEST(SlabRange, ChecksBounds) {
  std::byte slab[256];
  EXPECT_TRUE(slab_range(slab, 0, 256).has_value());
  EXPECT_TRUE(slab_range(slab, 256, 0).has_value());
  EXPECT_FALSE(slab_range(slab, 0, 257).has_value());
  EXPECT_FALSE(slab_range(slab, 257, 0).has_value());
  EXPECT_FALSE(slab_range(slab, 8, UINT64_MAX).has_value());
  EXPECT_FALSE(slab_range(slab, UINT64_MAX, 8).has_value());
}

}  // namespace
}  // namespace vgpu::protocol
