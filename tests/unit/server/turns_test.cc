// Turns between workers: the board, who waits, who lies, and what happens without vgpud.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/clock.h"
#include "protocol/transport/transport.h"
#include "server/admission.h"
#include "server/turn_keeper.h"

namespace vgpu::server {
namespace {

using scheduler::kOpen;
using scheduler::PriorityClass;
using scheduler::Share;

constexpr uint64_t kPiece = 200'000;  // ns of device time
constexpr uint64_t kMs = 1'000'000;

void pass_ms(int ms) { (void)poll(nullptr, 0, ms); }

// A driver that meters: a piece is past as soon as it has been given, unless the worker keeps it.
struct Meter {
  SoftMeterHooks hooks;
  bool keeps = false;
};
SoftMeterHooks started;               // by whoever was made last
thread_local Meter* meter = nullptr;  // of the worker whose piece this thread gives
const SoftMeterTable kMeter = {
    .start = [](const SoftMeterHooks* hooks) { started = *hooks; },
    .piece =
        [](uint64_t kind, uint64_t note, void (*body)(void*), void* argument) {
          body(argument);
          if (meter->keeps) return;
          meter->hooks.used(meter->hooks.context, note, kPiece);
          meter->hooks.done(meter->hooks.context, kind, note, kPiece);
        },
    .limit_kernels = [](uint64_t) {},
};
DriverTable metering() {
  DriverTable driver;
  driver.cuGetExportTable = [](const void** table, const CUuuid*) {
    *table = &kMeter;
    return CUDA_SUCCESS;
  };
  return driver;
}

// A worker's half in this process.
struct Worker {
  explicit Worker(uint64_t given, const DriverTable& driver = metering()) : number(given) {
    grants.count = 1;
    page = std::move(Mapping::map_private(kWorkerPageBytes).value());
    link = std::make_unique<TurnLink>(shown()->turns);
    admission = std::make_unique<Admission>(driver, link.get());
    own_meter.hooks = started;
    admission->publish_to(shown());
  }
  ~Worker() {
    if (keeper != nullptr) keeper->remove(number);  // it looks at the page until then
  }
  WorkerPage* shown() const { return reinterpret_cast<WorkerPage*>(page.data()); }
  TurnSlot& slot() const { return shown()->turns[0][0]; }
  uint64_t allowance() const { return link->grant(0, 0).allowance.load(); }

  void enter(TurnKeeper* given, const Share& share = {}) {
    keeper = given;
    auto papers = keeper->add(number, shown(), grants, share);
    ASSERT_TRUE(papers.ok()) << papers.status().to_string();
    ASSERT_TRUE(link->connect(std::move(papers->board), std::move(papers->bell)).ok());
  }
  // A piece that takes so many milliseconds.
  void work(int ms = 0) {
    Admission::Ticket ticket;
    admission->wait(0, {kPiece, 1}, &ticket);
    meter = &own_meter;
    (void)admission->carry_out(ticket, [ms] {
      if (ms != 0) pass_ms(ms);
      return CUDA_SUCCESS;
    });
  }
  uint64_t used() const { return shown()->device_ns[0].load(); }

  uint64_t number;
  Meter own_meter;
  TurnKeeper* keeper = nullptr;
  Mapping page;
  WorkerGrants grants;
  std::unique_ptr<TurnLink> link;
  std::unique_ptr<Admission> admission;
};

// Threads that want more until they are told to stop: with several, a worker always wants more.
class Busy {
 public:
  void add(Worker* worker, int threads = 1, int ms = 0) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, worker, ms] {
        while (!stop_.load(std::memory_order_relaxed)) worker->work(ms);
      });
    }
  }
  void stop() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    stop_.store(false);
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

bool eventually(const std::function<bool()>& done) {
  for (const uint64_t began = monotonic_ns(); monotonic_ns() - began < 20'000 * kMs;) {
    if (done()) return true;
    pass_ms(1);
  }
  return false;
}

class TurnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TurnKeeper::create(SchedulerKind::kFair);
    ASSERT_TRUE(made.ok());
    keeper_ = std::move(*made);
  }
  std::unique_ptr<TurnKeeper> keeper_;
};

TEST_F(TurnsTest, WhoIsAloneIsNotAskedAgain) {
  Worker one(1), idle(2);
  one.enter(keeper_.get());
  idle.enter(keeper_.get());
  one.work();
  EXPECT_TRUE(eventually([&] { return one.allowance() == kOpen; }));
  Admission::Ticket ticket;
  EXPECT_TRUE(one.admission->try_admit(0, {kPiece, 1}, &ticket));
  EXPECT_NE(idle.allowance(), kOpen) << "two cannot have it without turns";
}

TEST_F(TurnsTest, TwoThatWantItTakeTurnsByWeight) {
  Worker one(1), two(2);
  one.enter(keeper_.get(), {300});
  two.enter(keeper_.get(), {100});
  Busy busy;
  busy.add(&one, 4, 1);
  busy.add(&two, 4, 1);
  EXPECT_TRUE(eventually([&] { return one.used() > 10 * kMs && two.used() > 10 * kMs; }));
  const uint64_t before[] = {one.used(), two.used()};
  EXPECT_TRUE(eventually([&] { return one.used() + two.used() > 1'000 * kMs; }));
  const double ratio =
      static_cast<double>(one.used() - before[0]) / static_cast<double>(two.used() - before[1]);
  EXPECT_GT(ratio, 1.5);
  EXPECT_LT(ratio, 6.0);
  EXPECT_GT(two.shown()->wait_ns.load(), 0u);
  busy.stop();
  // And who stays has everything again.
  one.work();
  EXPECT_TRUE(eventually([&] {
    one.work();
    return one.allowance() == kOpen;
  }));
}

TEST_F(TurnsTest, AWeightIsChangedWhileTheyWork) {
  Worker one(1), two(2);
  one.enter(keeper_.get());
  two.enter(keeper_.get());
  Busy busy;
  busy.add(&one, 4, 1);
  busy.add(&two, 4, 1);
  EXPECT_TRUE(eventually([&] { return one.used() > 50 * kMs && two.used() > 50 * kMs; }));
  keeper_->set_share(1, {900});
  const uint64_t before[] = {one.used(), two.used()};
  EXPECT_TRUE(
      eventually([&] { return one.used() + two.used() > before[0] + before[1] + 1'000 * kMs; }));
  EXPECT_GT(static_cast<double>(one.used() - before[0]),
            2.5 * static_cast<double>(two.used() - before[1]));
  busy.stop();
}

TEST_F(TurnsTest, ACapHoldsAlthoughNobodyElseWantsIt) {
  Worker one(1);
  one.enter(keeper_.get(), {100, PriorityClass::kNormal, 100});
  Busy busy;
  busy.add(&one, 2, 1);
  const uint64_t began = monotonic_ns();
  pass_ms(400);
  const double used = static_cast<double>(one.used());
  const double passed = static_cast<double>(monotonic_ns() - began);
  busy.stop();
  EXPECT_LT(used, 0.1 * passed + 8e6) << "and what a burst may be";
  EXPECT_GT(used, 0.01 * passed);
  EXPECT_NE(one.allowance(), kOpen);
  EXPECT_GT(one.shown()->throttled_ns.load(), 0u);
}

// A worker that is killed with a turn, or while it waits for one, leaves nothing behind.
TEST_F(TurnsTest, WhoGoesLeavesNothing) {
  std::mt19937_64 random(1);
  Worker stays(1);
  stays.enter(keeper_.get());
  Busy busy;
  busy.add(&stays);
  for (uint64_t i = 0; i < 60; ++i) {
    Worker goes(2 + i);
    goes.enter(keeper_.get(), {1 + static_cast<uint32_t>(random() % 1000)});
    // What it had written when it was killed.
    goes.slot().wanted.store(random() % 2 * kPiece);
    goes.slot().admitted.store(random() % 4 * kPiece);
    goes.slot().completed.store(random() % 3 * kPiece);
    goes.slot().measured.store(random() % 2 * kPiece);
    if (random() % 2 == 0) goes.link->ring();
    pass_ms(static_cast<int>(random() % 4));
    keeper_->remove(goes.number);
  }
  EXPECT_TRUE(eventually([&] { return stays.allowance() == kOpen; }));
  const uint64_t before = stays.used();
  EXPECT_TRUE(eventually([&] { return stays.used() > before + 100 * kMs; }));
  busy.stop();
}

TEST_F(TurnsTest, APageFullOfNonsenseHarmsOnlyItsOwner) {
  Worker honest(1), hostile(2);
  honest.enter(keeper_.get());
  hostile.enter(keeper_.get());
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(2);
    while (!stop.load()) {
      TurnSlot& slot = hostile.slot();
      for (auto* word : {&slot.wanted, &slot.admitted, &slot.completed, &slot.measured})
        word->store(random() >> random() % 64);
      hostile.link->ring();
    }
  });
  Busy busy;
  busy.add(&honest);
  EXPECT_TRUE(eventually([&] { return honest.used() > 200 * kMs; }));
  stop.store(true);
  writer.join();
  busy.stop();
}

// A worker has the same open file as vgpud for its bell: it may let reads block, and read.
TEST_F(TurnsTest, ABellThatIsDrainedStopsNobody) {
  Worker honest(1), hostile(2);
  honest.enter(keeper_.get());
  auto papers = keeper_->add(2, hostile.shown(), hostile.grants, {});
  ASSERT_TRUE(papers.ok());
  hostile.keeper = keeper_.get();
  const int bell = papers->bell.get();
  ASSERT_EQ(fcntl(bell, F_SETFL, fcntl(bell, F_GETFL) & ~O_NONBLOCK), 0);
  const uint64_t one = 1;
  uint64_t rung = 0;
  const iovec to = {&rung, sizeof(rung)};
  for (uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(write(bell, &one, sizeof(one)), ssize_t{sizeof(one)});
    for (const uint64_t began = monotonic_ns(); monotonic_ns() - began < i % 64 * 1'000;) {
    }
    (void)!preadv2(bell, &to, 1, -1, RWF_NOWAIT);
    keeper_->set_share(1, {200});  // hangs when vgpud's thread does
  }
  honest.work();
  hostile.slot().wanted.store(kPiece);
  (void)!write(bell, &one, sizeof(one));
  EXPECT_TRUE(eventually([&] { return hostile.slot().word.load() != 0; })) << "its bell is heard";
}

TEST_F(TurnsTest, AWorkerCannotWriteOnTheBoard) {
  Worker one(1);
  auto papers = keeper_->add(1, one.shown(), one.grants, {});
  ASSERT_TRUE(papers.ok());
  one.keeper = keeper_.get();
  EXPECT_EQ(
      mmap(nullptr, kTurnBoardBytes, PROT_READ | PROT_WRITE, MAP_SHARED, papers->board.get(), 0),
      MAP_FAILED);
  EXPECT_LT(pwrite(papers->board.get(), "x", 1, 0), 0);
}

// vgpud is gone: nobody waits for it, but a cap stays one.
TEST_F(TurnsTest, WithoutVgpudWorkersGoOn) {
  Worker free(1), capped(2);
  free.enter(keeper_.get());
  capped.enter(keeper_.get(), {100, PriorityClass::kNormal, 200});
  std::thread waits([&] { capped.work(); });
  waits.join();
  free.link->disconnect();
  capped.link->disconnect();
  free.keeper = capped.keeper = nullptr;
  keeper_.reset();
  for (int i = 0; i < 100; ++i) free.work();
  EXPECT_GE(free.used(), 100 * kPiece);
  const uint64_t began = monotonic_ns(), before = capped.used();
  while (monotonic_ns() - began < 300 * kMs) capped.work();
  const auto used = static_cast<double>(capped.used() - before);
  EXPECT_LT(used, 0.2 * static_cast<double>(monotonic_ns() - began) + 8e6);
  EXPECT_GT(used, 10e6);
  // What it tells the next one.
  EXPECT_EQ(capped.link->share({}).cap_permille, 200u);
}

// vgpud is there and does not move: after a second its silence counts as leave.
TEST_F(TurnsTest, ASilentVgpudKeepsNobodyForever) {
  Worker one(1);
  UniqueFd board = std::move(protocol::make_sealed_memory(kTurnBoardBytes, "test").value());
  ASSERT_TRUE(one.link->connect(std::move(board), UniqueFd()).ok());  // all 0: nothing is allowed
  const uint64_t began = monotonic_ns();
  one.work();
  EXPECT_GE(monotonic_ns() - began, kSilenceNs);
  EXPECT_LT(monotonic_ns() - began, 20 * kSilenceNs);
}

TEST_F(TurnsTest, TheEndOfASessionEndsItsWaits) {
  Worker one(1);
  UniqueFd board = std::move(protocol::make_sealed_memory(kTurnBoardBytes, "test").value());
  ASSERT_TRUE(one.link->connect(std::move(board), UniqueFd()).ok());
  std::thread waits([&] { one.work(); });
  pass_ms(20);
  const uint64_t began = monotonic_ns();
  one.admission->end();
  waits.join();
  EXPECT_LT(monotonic_ns() - began, kSilenceNs / 2);
}

// A long piece that is past leaves no room for many short ones.
TEST_F(TurnsTest, WhatIsWithTheDriverStaysBounded) {
  Worker one(1);
  one.enter(keeper_.get());
  while (one.allowance() != kOpen) one.work();
  for (int i = 0; i < 40; ++i) one.work();
  constexpr uint64_t kLong = 1'000 * kMs;
  Admission::Ticket ticket;
  ASSERT_TRUE(one.admission->try_admit(0, {kLong, 77}, &ticket));
  const SoftMeterHooks& hooks = one.own_meter.hooks;
  hooks.used(hooks.context, ticket.note, kLong);
  hooks.done(hooks.context, ticket.kind, ticket.note, kLong);
  uint64_t pieces = 0;
  while (pieces < 1000 && one.admission->try_admit(0, {kPiece, 1}, &ticket)) ++pieces;
  EXPECT_GE(pieces, 2u);
  EXPECT_LE(pieces, kAheadNs / kPiece + 1);
}

// Nobody knows what anything takes: nothing is made up for people, and no cap is kept by it.
TEST_F(TurnsTest, WithoutAMeterNoCapIsKeptAndNothingIsPublished) {
  Worker one(1, DriverTable{}), capped(2, DriverTable{});
  one.enter(keeper_.get());
  capped.enter(keeper_.get(), {100, PriorityClass::kNormal, 1});
  const uint64_t began = monotonic_ns();
  for (int i = 0; i < 2000; ++i) {
    for (const Worker* worker : {&one, &capped}) {
      Admission::Ticket ticket;
      worker->admission->wait(0, {kUnknownCost, 1}, &ticket);
      (void)worker->admission->carry_out(ticket, [] { return CUDA_SUCCESS; });
    }
  }
  EXPECT_LT(monotonic_ns() - began, 10'000 * kMs);
  EXPECT_EQ(capped.shown()->throttled_ns.load(), 0u);
  EXPECT_EQ(one.used() + capped.used(), 0u);
  EXPECT_LE(one.slot().admitted.load(), 2000 * 10'000u);
}

TEST(Fifo, NobodyIsToldToWait) {
  auto keeper = std::move(TurnKeeper::create(SchedulerKind::kFifo).value());
  Worker one(1), two(2);
  one.enter(keeper.get());
  two.enter(keeper.get());
  one.work();
  two.work();
  EXPECT_EQ(one.allowance(), kOpen);
  EXPECT_EQ(two.allowance(), kOpen);
}

TEST(Shares, WhatCannotBeIsMadePossible) {
  const Share share = valid_share({0, static_cast<PriorityClass>(77), 5000});
  EXPECT_EQ(share.weight, 1u);
  EXPECT_EQ(share.priority, PriorityClass::kNormal);
  EXPECT_EQ(share.cap_permille, scheduler::kPermille);
  EXPECT_EQ(valid_share({UINT32_MAX, PriorityClass::kSpot, 0}).weight, scheduler::kWeightMax);
}

}  // namespace
}  // namespace vgpu::server
