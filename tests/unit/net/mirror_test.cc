// The two movers over a fabric that does what it may: from seeds, thousands of steps each.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "net/fabric/gate_mover.h"
#include "net/fabric/guest_mover.h"
#include "protocol/ring/consumer.h"
#include "protocol/ring/host_calls.h"
#include "protocol/ring/producer.h"
#include "protocol/ring/staging.h"
#include "tests/unit/net/fake_link.h"

namespace vgpu::net {
namespace {

using protocol::ChannelSizes;
using protocol::ChannelView;
using protocol::kNoReply;

// What a record of the test says.
struct Body {
  uint64_t number;
  uint64_t up_offset, up_bytes;      // 0 bytes: none
  uint64_t down_offset, down_bytes;  // likewise
  uint64_t padding;                  // bytes behind this, of the pattern of `number`
};

std::byte pattern(uint64_t seed, uint64_t place) {
  return static_cast<std::byte>((seed * 31 + place * 7 + (place >> 8)) & 0xff);
}

bool holds(std::span<const std::byte> bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != pattern(seed, i)) return false;
  }
  return true;
}

void fill(std::span<std::byte> bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(seed, i);
}

struct Memory {
  explicit Memory(const ChannelSizes& sizes)
      : bytes(static_cast<std::byte*>(std::aligned_alloc(4096, sizes.total_bytes())), &std::free),
        view((std::memset(bytes.get(), 0, sizes.total_bytes()), bytes.get()), sizes) {}
  std::unique_ptr<std::byte, void (*)(void*)> bytes;
  ChannelView view;
};

// A guest, its mirror, the fabric, a gate and a worker, all driven by one thread.
class World {
 public:
  explicit World(uint64_t seed)
      : random_(seed), guest_mover_(guest_.view), gate_mover_(gate_.view) {
    connect();
  }

  // From now on a step in so many is a cut, from which both sides go on.
  void cut_every(uint64_t steps) { cut_every_ = steps; }
  uint64_t cuts() const { return cuts_; }

  void step() {
    if (cut_every_ != 0 && random_() % cut_every_ == 0) cut_and_go_on();
    switch (random_() % 7) {
      case 0:
        produce();
        break;
      case 1:
        (void)guest_mover_.flush();
        break;
      case 2:
        (void)guest_mover_.poll();
        collect();
        break;
      case 3:
        (void)gate_mover_.poll();
        break;
      case 4:
        (void)gate_mover_.report(now_ += 5'000, random_() % 4 == 0);
        break;
      case 5:
        consume();
        break;
      case 6:
        answer();
        break;
    }
    EXPECT_LE(guest_link_->messages_coming(), kReceivesPosted);
    EXPECT_LE(gate_link_->messages_coming(), kReceivesPosted);
  }

  // Everything that was begun comes to its end.
  bool settle() {
    producing_ = false;
    for (int i = 0; i < 200'000; ++i) {
      step();
      if (consumed_ == produced_ && waiting_.empty() && owed_.empty() && !guest_mover_.pending() &&
          calls_run_ == calls_posted_ && same_words())
        return true;
    }
    return false;
  }

  void cut() { guest_link_->cut(); }
  bool over() const { return guest_mover_.gone() && gate_mover_.gone(); }
  const Status& guest_error() const { return guest_mover_.error(); }
  const Status& gate_error() const { return gate_mover_.error(); }
  uint64_t produced() const { return produced_; }
  uint64_t answered() const { return answered_; }
  uint64_t called() const { return calls_run_; }

 private:
  bool same_words() const {
    const protocol::SemaphorePage& guest = *guest_.view.semaphores();
    const protocol::SemaphorePage& worker = *gate_.view.semaphores();
    return guest.executed.value.load() == worker.executed.value.load() &&
           guest.held[5].load() == worker.held[5].load() &&
           gate_.view.host_calls()->finished.position.load() == calls_run_;
  }
  static constexpr ChannelSizes kSizes{protocol::kRingBytesMin, 256 * 1024, 256 * 1024};
  struct Waiting {
    uint32_t slot;
    Body body;
    protocol::Staging::Piece down;
  };

  void produce() {
    const uint64_t head = guest_.view.header()->head.position.load();
    const uint64_t room = kSizes.ring_bytes - (producer_.written() - head);
    if (!producing_ || room < 2 * protocol::kRecordBytesMax) return;
    Body body{++produced_, 0, 0, 0, 0, 0};
    body.padding = random_() % 50 == 0 ? random_() % 40'000 : random_() % 200;
    up_.retire_through(guest_.view.semaphores()->slab_retired.value.load());
    protocol::Staging::Piece up;
    if (random_() % 4 == 0) {
      body.up_bytes = 1 + random_() % 60'000;
      up = up_.allocate(body.up_bytes);
      body.up_offset = up.offset;
      if (up.ok()) {
        stage(body);
      } else {
        body.up_bytes = 0;
      }
    }
    const uint32_t slot = random_() % 3 == 0 ? ask(&body) : kNoReply;
    const auto bytes =
        static_cast<uint32_t>(sizeof(protocol::RecordHeader) + sizeof(body) + body.padding);
    std::byte* place = producer_.reserve(bytes);
    ASSERT_NE(place, nullptr);
    const protocol::RecordHeader header{protocol::round_up_to_record(bytes), 7, 0,
                                        static_cast<uint32_t>(body.padding), slot};
    std::memcpy(place, &header, sizeof(header));
    std::memcpy(place + sizeof(header), &body, sizeof(body));
    fill({place + sizeof(header) + sizeof(body), body.padding}, body.number);
    const uint64_t sequence = producer_.commit();
    if (up.ok()) up_.bind(up.ticket, sequence);
  }

  void connect() {
    const Positions guest = guest_mover_.positions(), gate = gate_mover_.positions();
    guest_link_ = std::make_unique<testing::FakeLink>(random_(), guest_.view.down_slab());
    gate_link_ = std::make_unique<testing::FakeLink>(
        random_(), std::span(gate_.view.ring(), kSizes.ring_bytes + kSizes.up_bytes));
    testing::FakeLink::join(guest_link_.get(), gate_link_.get());
    const Status up = guest_mover_.connect(guest_link_.get(), gate);
    const Status down = gate_mover_.connect(gate_link_.get(), guest);
    ASSERT_TRUE(up.ok() && down.ok()) << up.text() << down.text();
  }

  // One side's end vanishes; the other goes on for a while with what has come, and into the void,
  // before its end goes too. Only then both say how far they are.
  void cut_and_go_on() {
    ++cuts_;
    const bool guest_first = random_() % 2 == 0;
    (guest_first ? guest_link_ : gate_link_)->vanish();
    if (guest_first) {
      guest_mover_.disconnect();
    } else {
      gate_mover_.disconnect();
    }
    for (uint64_t some = random_() % 20; some > 0; --some) {
      (void)guest_mover_.flush();
      (void)guest_mover_.poll();
      (void)gate_mover_.poll();
      (void)gate_mover_.report(now_ += 5'000, random_() % 2 == 0);
      if (random_() % 2 == 0) consume();
      if (random_() % 2 == 0) answer();
    }
    guest_link_->vanish();
    gate_link_->vanish();
    guest_mover_.disconnect();
    gate_mover_.disconnect();
    if (random_() % 2 == 0) consume();
    if (random_() % 2 == 0) answer();
    connect();
  }

  // Into the slab, and from there, in pieces as a transport does it.
  void stage(const Body& body) {
    fill(guest_.view.up_slab().subspan(body.up_offset, body.up_bytes), body.number + 1);
    uint64_t done = 0, there = 0;
    while (done < body.up_bytes && !(cut_every_ == 0 && guest_mover_.gone())) {
      if (done == there) there = std::min(body.up_bytes, there + 20'000);
      (void)guest_mover_.stage(body.up_offset, there, &done);
      (void)guest_mover_.poll();
      (void)gate_mover_.poll();
      if (cut_every_ != 0 && random_() % cut_every_ == 0) cut_and_go_on();
    }
  }

  // Takes a reply slot, and perhaps room for results.
  uint32_t ask(Body* body) {
    const uint32_t slot = free_slot();
    if (slot == kNoReply) return slot;
    protocol::Staging::Piece down;
    if (random_() % 2 == 0) {
      const uint64_t bytes = 1 + random_() % (random_() % 2 == 0 ? 3000 : 50'000);
      down = down_.allocate(bytes);
      if (down.ok()) body->down_bytes = bytes;
      if (down.ok()) body->down_offset = down.offset;
    }
    guest_.view.replies()[slot].state.store(protocol::kReplyArmed);
    guest_mover_.expect(slot, body->down_offset, body->down_bytes);
    waiting_.push_back({slot, *body, down});
    return slot;
  }

  uint32_t free_slot() {
    for (int i = 0; i < 8; ++i) {
      const auto slot = static_cast<uint32_t>(random_() % protocol::kReplySlots);
      bool taken = false;
      for (const Waiting& each : waiting_) taken = taken || each.slot == slot;
      if (!taken) return slot;
    }
    return kNoReply;
  }

  std::mt19937_64 random_;
  Memory guest_{kSizes}, gate_{kSizes};
  std::unique_ptr<testing::FakeLink> guest_link_, gate_link_;
  GuestMover guest_mover_;
  GateMover gate_mover_;
  protocol::Producer producer_{guest_.view};
  protocol::Consumer consumer_{gate_.view};
  protocol::ReplyWriter worker_replies_{gate_.view};
  protocol::SemaphoreWriter worker_semaphores_{gate_.view};
  protocol::HostCallWriter worker_calls_{gate_.view};
  protocol::Staging up_{kSizes.up_bytes}, down_{kSizes.down_bytes};
  bool producing_ = true, held_ = false;
  uint64_t cut_every_ = 0, cuts_ = 0;
  int64_t now_ = 0;
  uint64_t produced_ = 0, consumed_ = 0, answered_ = 0, calls_posted_ = 0, calls_run_ = 0;
  std::deque<Waiting> waiting_;
  std::deque<std::pair<uint32_t, Body>> owed_;

  // The worker: checks a record against its number, answers some at once and some later.
  void consume() {
    protocol::Record record;
    const protocol::PeekResult result = consumer_.peek(&record);
    ASSERT_NE(result, protocol::PeekResult::kMalformed) << consumer_.error().text();
    if (result == protocol::PeekResult::kEmpty) return;
    Body body;
    ASSERT_GE(record.body.size(), sizeof(body));
    std::memcpy(&body, record.body.data(), sizeof(body));
    ASSERT_EQ(body.number, ++consumed_);
    EXPECT_TRUE(holds(record.body.subspan(sizeof(body), body.padding), body.number));
    EXPECT_TRUE(
        holds(gate_.view.up_slab().subspan(body.up_offset, body.up_bytes), body.number + 1));
    if (record.header.reply != kNoReply) owed_.push_back({record.header.reply, body});
    consumer_.release();
    worker_semaphores_.raise(protocol::Semaphore::kExecuted, consumed_);
    worker_semaphores_.raise(protocol::Semaphore::kSlabRetired, consumed_);
    if (random_() % 16 == 0) worker_semaphores_.raise_credit(3, consumed_);
    if (random_() % 16 == 0) worker_semaphores_.set_held(5, (held_ = !held_));
    if (random_() % 16 == 0 && worker_calls_.post({consumed_, 1})) ++calls_posted_;
  }

  // In any order, as those who wait for the device do.
  void answer() {
    if (owed_.empty()) return;
    const size_t which = random_() % owed_.size();
    const auto [slot, body] = owed_[which];
    owed_.erase(owed_.begin() + static_cast<ptrdiff_t>(which));
    fill(gate_.view.down_slab().subspan(body.down_offset, body.down_bytes), body.number + 2);
    worker_semaphores_.raise(protocol::Semaphore::kFreeRetired, body.number);
    worker_replies_.complete_with(slot, static_cast<int32_t>(body.number % 1000), body.number);
  }

  // The guest: what has been answered, and the calls that have come.
  void collect() {
    for (size_t i = 0; i < waiting_.size(); ++i) {
      const Waiting each = waiting_[i];
      const protocol::ReplySlot& slot = guest_.view.replies()[each.slot];
      if (slot.state.load() != protocol::kReplyDone) continue;
      uint64_t number = 0;
      EXPECT_EQ(slot.payload_bytes, sizeof(number));
      std::memcpy(&number, slot.payload, sizeof(number));
      EXPECT_EQ(number, each.body.number);
      EXPECT_EQ(slot.result, static_cast<int32_t>(number % 1000));
      // What was published before the answer is there with it.
      EXPECT_GE(guest_.view.semaphores()->free_retired.value.load(), number);
      EXPECT_TRUE(
          holds(guest_.view.down_slab().subspan(each.body.down_offset, each.body.down_bytes),
                number + 2));
      if (each.down.ok()) down_.release(each.down.ticket);
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i--));
      ++answered_;
    }
    protocol::HostCallPage* calls = guest_.view.host_calls();
    if (calls->posted.position.load() == calls_run_) return;
    EXPECT_EQ(calls->entries[calls_run_ % protocol::kHostCallEntries].status, 1);
    calls->finished.position.store(++calls_run_);
  }

 public:
  bool gate_refuses(const Positions& theirs) {
    gate_mover_.disconnect();
    return !gate_mover_.connect(gate_link_.get(), theirs).ok();
  }
  bool guest_refuses(const Positions& theirs) {
    guest_mover_.disconnect();
    return !guest_mover_.connect(guest_link_.get(), theirs).ok();
  }
  void expect_same_words() const {
    const protocol::SemaphorePage& guest = *guest_.view.semaphores();
    const protocol::SemaphorePage& worker = *gate_.view.semaphores();
    EXPECT_EQ(guest.executed.value.load(), worker.executed.value.load());
    EXPECT_EQ(guest.backed_credit[3].load(), worker.backed_credit[3].load());
    EXPECT_EQ(guest.held[5].load(), worker.held[5].load());
    EXPECT_EQ(calls_run_, calls_posted_);
    EXPECT_EQ(gate_.view.host_calls()->finished.position.load(), calls_run_);
  }
};

TEST(Mirror, AllArrivesOnceInOrderWhateverTheFabricDoes) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    for (int i = 0; i < 20'000; ++i) world.step();
    ASSERT_TRUE(world.settle());
    world.expect_same_words();
    EXPECT_GT(world.produced(), 1000u);
    EXPECT_GT(world.answered(), 200u);
    EXPECT_GT(world.called(), 10u);
    EXPECT_FALSE(world.over());
    EXPECT_TRUE(world.guest_error().ok()) << world.guest_error().text();
    EXPECT_TRUE(world.gate_error().ok()) << world.gate_error().text();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Mirror, ACutEndsBothSidesAndIsNobodysFault) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    const uint64_t steps = 1 + seed * 37 % 3000;
    for (uint64_t i = 0; i < steps; ++i) world.step();
    world.cut();
    for (int i = 0; i < 100; ++i) world.step();
    EXPECT_TRUE(world.over());
    EXPECT_TRUE(world.guest_error().ok());
    EXPECT_TRUE(world.gate_error().ok());
    if (::testing::Test::HasFailure()) return;
  }
}

// The state machine of resuming: whatever is on its way when a connection is cut, each record, each
// answer and each host call arrives once and in order.
TEST(Mirror, NothingIsLostOrDoubledByCuts) {
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.cut_every(seed % 3 == 0 ? 15 : 100);
    for (int i = 0; i < 10'000; ++i) {
      world.step();
      if (::testing::Test::HasFailure()) return;
    }
    world.cut_every(500);
    ASSERT_TRUE(world.settle()) << world.guest_error().text() << world.gate_error().text();
    world.expect_same_words();
    EXPECT_GT(world.produced(), 300u);
    EXPECT_GT(world.called(), 10u);
    EXPECT_FALSE(world.over());
    cuts += world.cuts();
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(cuts, 5000u);
}

// What a peer may say of itself when it resumes.
TEST(Mirror, PositionsThatCannotBeAreRefused) {
  const auto gate_refuses = [](const Positions& positions) {
    World world(3);
    for (int i = 0; i < 5000; ++i) world.step();
    return world.gate_refuses(positions);
  };
  const auto guest_refuses = [](const Positions& positions) {
    World world(3);
    for (int i = 0; i < 5000; ++i) world.step();
    return world.guest_refuses(positions);
  };
  constexpr uint64_t kFar = uint64_t{1} << 40;
  EXPECT_TRUE(gate_refuses({0, 0, 0, kFar, 0, 0})) << "a head beyond what was reported";
  EXPECT_TRUE(gate_refuses({0, 0, 0, 0, kFar, 0})) << "host calls that never were";
  EXPECT_TRUE(gate_refuses({0, 0, 0, 0, 0, kFar})) << "answers that never were";
  EXPECT_TRUE(gate_refuses({0, 0, 0, 0, 0, 0})) << "all answers are wanted again";
  EXPECT_TRUE(guest_refuses({kFar, 0, 0, 0, 0, 0})) << "a tail that was not sent";
  EXPECT_TRUE(guest_refuses({0, 0, 0, 0, 0, 0})) << "records behind the head are wanted again";
}

}  // namespace
}  // namespace vgpu::net
