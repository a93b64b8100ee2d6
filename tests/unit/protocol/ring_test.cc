// Records through the ring: order, content, pads, limits, a full ring.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "tests/unit/protocol/test_channel.h"

namespace vgpu::protocol {
namespace {

struct Args {
  uint64_t number;
  uint64_t seed;
};

std::vector<std::byte> pattern(uint64_t seed, size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(seed * 31 + i * 7);
  return data;
}

TEST(Ring, CarriesStructAndBlob) {
  TestChannel channel;
  const auto blob = pattern(3, 37);
  EXPECT_EQ(write_record(&channel.guest->producer(), 7, Args{1, 2}, blob, 5), 1u);
  Record record;
  ASSERT_EQ(channel.worker->consumer().peek(&record), PeekResult::kRecord);
  EXPECT_EQ(record.header.op, 7);
  EXPECT_EQ(record.header.reply, 5u);
  EXPECT_EQ(record.sequence, 1u);
  Args args{};
  Blob got;
  ASSERT_TRUE(decode(record, &args, &got));
  EXPECT_EQ(args.number, 1u);
  EXPECT_TRUE(std::equal(got.bytes.begin(), got.bytes.end(), blob.begin(), blob.end()));
  channel.worker->consumer().release();
  EXPECT_EQ(channel.worker->consumer().peek(&record), PeekResult::kEmpty);
  EXPECT_EQ(channel.worker->consumer().sequence(), 1u);
}

TEST(Ring, PeekTwiceIsTheSameRecord) {
  TestChannel channel;
  write_record(&channel.guest->producer(), 7, Args{1, 2});
  write_record(&channel.guest->producer(), 8, Args{1, 2});
  Record record;
  ASSERT_EQ(channel.worker->consumer().peek(&record), PeekResult::kRecord);
  ASSERT_EQ(channel.worker->consumer().peek(&record), PeekResult::kRecord);
  EXPECT_EQ(record.header.op, 7);
  EXPECT_EQ(record.sequence, 1u);
}

TEST(Ring, RefusesAbsurdSizes) {
  TestChannel channel;
  Producer& producer = channel.guest->producer();
  EXPECT_EQ(producer.reserve(0), nullptr);
  EXPECT_EQ(producer.reserve(kRecordBytesMax + 1), nullptr);
  EXPECT_EQ(producer.reserve(UINT32_MAX), nullptr);
  EXPECT_NE(producer.reserve(kRecordBytesMax), nullptr);
  EXPECT_FALSE(producer.dead());
  EXPECT_EQ(begin_record(&producer, 7, Args{}, UINT32_MAX - 8), nullptr);
}

TEST(Ring, QuietRecordsAppearAtPublish) {
  TestChannel channel;
  Producer& producer = channel.guest->producer();
  ASSERT_NE(begin_record(&producer, 7, Args{}), nullptr);
  EXPECT_EQ(producer.commit_quietly(), 1u);
  Record record;
  EXPECT_EQ(channel.worker->consumer().peek(&record), PeekResult::kEmpty);
  producer.publish();
  EXPECT_EQ(channel.worker->consumer().peek(&record), PeekResult::kRecord);
}

// Every size from the smallest to the limit meets the ring's end somewhere; content and order must
// survive all pads and full rings.
TEST(Ring, RandomSizesSurviveWrapAndFullRing) {
  TestChannel channel;
  constexpr uint64_t kRecords = 20'000;
  std::thread worker([&] {
    Consumer& consumer = channel.worker->consumer();
    for (uint64_t next = 1; next <= kRecords;) {
      Record record;
      const PeekResult result = consumer.peek(&record);
      if (result == PeekResult::kEmpty) {
        ASSERT_EQ(consumer.wait(), WaitResult::kReady);
        continue;
      }
      ASSERT_EQ(result, PeekResult::kRecord) << consumer.error().text();
      Args args{};
      Blob blob;
      ASSERT_TRUE(decode(record, &args, &blob));
      ASSERT_EQ(args.number, next);
      ASSERT_EQ(record.sequence, next);
      const auto expected = pattern(args.seed, blob.size());
      ASSERT_TRUE(std::equal(blob.bytes.begin(), blob.bytes.end(), expected.begin()));
      consumer.release();
      ++next;
    }
  });
  std::mt19937_64 random(42);
  const uint32_t blob_max = kRecordBytesMax - sizeof(RecordHeader) - sizeof(Args);
  for (uint64_t i = 1; i <= kRecords; ++i) {
    const uint32_t bytes = i % 64 == 0 ? blob_max - random() % 40 : random() % 2000;
    const uint64_t seed = random();
    ASSERT_EQ(write_record(&channel.guest->producer(), 9, Args{i, seed}, pattern(seed, bytes)), i);
  }
  worker.join();
}

TEST(Ring, DeadProducerStopsWaitingForRoom) {
  TestChannel channel;
  std::thread guest([&] {
    uint64_t written = 0;
    while (write_record(&channel.guest->producer(), 9, Args{}, pattern(1, 30'000)) != 0) ++written;
    EXPECT_GE(written, 8u);  // filled the ring first
  });
  // The guest can only leave its loop through mark_dead, whenever that comes.
  while (channel.view().header()->producer_sleep.sleeping.load() == 0) std::this_thread::yield();
  channel.guest->mark_dead();
  guest.join();
  EXPECT_TRUE(channel.guest->producer().dead());
}

TEST(Ring, ImpossibleHeadKillsTheChannelInsteadOfOverwriting) {
  TestChannel channel;
  channel.view().header()->head.position.store(1 << 30);
  uint64_t written = 0;
  while (write_record(&channel.guest->producer(), 9, Args{}, pattern(1, 60'000)) != 0) ++written;
  EXPECT_EQ(written, 4u);
  EXPECT_TRUE(channel.guest->producer().dead());
}

}  // namespace
}  // namespace vgpu::protocol
