// What the channel costs, beside raw futex and raw spinning in the same run.
//   ring_bench --benchmark_format=json    machine-readable
// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "protocol/session/channel.h"
#include "protocol/wire/encoder.h"

namespace vgpu::protocol {
namespace {

struct Args {  // with the header: a 64-byte record
  uint64_t words[6];
};
static_assert(record_bytes<Args>(0) == 64);

struct Memory {
  Memory() {
    Result<LoopPair> made = make_loop(ChannelSizes{});
    if (!made.ok()) std::abort();
    pair = std::move(made).value();
  }
  ChannelView view() const { return ChannelView(pair.worker->memory().data(), ChannelSizes{}); }
  LoopPair pair;
};

cpu_set_t allowed_at_start() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}
// Taken before anything is pinned: threads inherit the mask of the thread that makes them.
const cpu_set_t kAllowed = allowed_at_start();

// The two sides on two CPUs, the same two for everything that is compared.
void pin(int index) {
  if (CPU_COUNT(&kAllowed) < 2) return;
  int seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &kAllowed) || seen++ != index) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
    return;
  }
}

class Pinned {  // the benchmark's own thread, for one benchmark
 public:
  Pinned() { pin(0); }
  ~Pinned() { sched_setaffinity(0, sizeof(kAllowed), &kAllowed); }
};

uint64_t drain(Consumer* consumer) {
  uint64_t records = 0;
  Record record;
  while (consumer->peek(&record) == PeekResult::kRecord) {
    consumer->release();
    ++records;
  }
  return records;
}

// The guest's cost of one 64-byte record; the draining is not timed. Range = records per publish.
void BM_Write64(benchmark::State& state) {
  Memory memory;
  auto producer = std::make_unique<Producer>(memory.view());
  auto consumer = std::make_unique<Consumer>(memory.view());
  constexpr int kBatch = 8192;
  const int64_t publish_every = state.range(0);
  uint64_t drained = 0;
  for (auto _ : state) {
    const int64_t start = now_ns();
    for (int64_t i = 1; i <= kBatch; ++i) {
      benchmark::DoNotOptimize(begin_record(producer.get(), 5, Args{}));
      producer->commit_quietly();
      if (i % publish_every == 0) producer->publish();
    }
    state.SetIterationTime(static_cast<double>(now_ns() - start) * 1e-9);
    producer->publish();
    drained += drain(consumer.get());
  }
  if (drained != producer->sequence()) state.SkipWithError("records were lost");
  state.SetItemsProcessed(static_cast<int64_t>(drained));
}
BENCHMARK(BM_Write64)->Arg(1)->Arg(16)->UseManualTime();

// Producer to consumer on two threads, copy and check included.
void BM_Stream64(benchmark::State& state) {
  const Pinned pinned;
  Memory memory;
  auto producer = std::make_unique<Producer>(memory.view());
  auto consumer = std::make_unique<Consumer>(memory.view());
  std::atomic<uint64_t> seen{0};
  std::thread worker([&] {
    pin(1);
    do {
      const uint64_t records = drain(consumer.get());
      seen.store(seen.load(std::memory_order_relaxed) + records, std::memory_order_release);
    } while (consumer->wait() == WaitResult::kReady);
  });
  const int64_t publish_every = state.range(0);
  int64_t written = 0;
  for (auto _ : state) {
    for (int i = 0; i < 4096; ++i) {
      benchmark::DoNotOptimize(begin_record(producer.get(), 5, Args{}));
      producer->commit_quietly();
      if (++written % publish_every == 0) producer->publish();
    }
  }
  producer->publish();
  while (seen.load(std::memory_order_acquire) != producer->sequence()) std::this_thread::yield();
  consumer->mark_dead();
  worker.join();
  state.SetItemsProcessed(written);
}
BENCHMARK(BM_Stream64)->Arg(1)->Arg(16)->UseRealTime();

// A call that waits for its reply.
void BM_RoundTrip(benchmark::State& state, SpinMode mode) {
  const Pinned pinned;
  Memory memory;
  auto producer = std::make_unique<Producer>(memory.view(), mode);
  auto replies = std::make_unique<ReplyPool>(memory.view(), mode);
  auto consumer = std::make_unique<Consumer>(memory.view(), mode);
  std::thread worker([&] {
    pin(1);
    ReplyWriter writer(memory.view());
    for (;;) {
      Record record;
      if (consumer->peek(&record) != PeekResult::kRecord) {
        if (consumer->wait() == WaitResult::kDead) return;
        continue;
      }
      consumer->release();
      writer.complete(record.header.reply, 0);
    }
  });
  const uint32_t slot = replies->acquire();
  for (auto _ : state) {
    write_record(producer.get(), 5, Args{}, {}, slot);
    Reply reply;
    if (replies->wait(slot, &reply) != WaitResult::kReady) state.SkipWithError("no reply");
  }
  consumer->mark_dead();
  worker.join();
}
BENCHMARK_CAPTURE(BM_RoundTrip, adaptive, SpinMode::kAdaptive)->UseRealTime();
BENCHMARK_CAPTURE(BM_RoundTrip, spinning, SpinMode::kForever)->UseRealTime();
BENCHMARK_CAPTURE(BM_RoundTrip, sleeping, SpinMode::kNever)->UseRealTime();

struct alignas(kCacheLineBytes) Line {
  std::atomic<uint32_t> word{0};
};

// The least that two threads can do: one word each way, by futex or by spinning.
void BM_RawPingPong(benchmark::State& state, bool sleeping) {
  const Pinned pinned;
  Line ping, pong;
  const auto wait = [sleeping](std::atomic<uint32_t>* word, uint32_t old) {
    while (word->load(std::memory_order_acquire) == old) {
      if (sleeping) {
        futex_wait(word, old, -1);
      } else {
        cpu_pause();
      }
    }
  };
  const auto send = [sleeping](std::atomic<uint32_t>* word, uint32_t value) {
    word->store(value, std::memory_order_release);
    if (sleeping) futex_wake(word, 1);
  };
  constexpr uint32_t kStop = 0xffffffff;
  std::thread worker([&] {
    pin(1);
    for (uint32_t last = 0;;) {
      wait(&ping.word, last);
      last = ping.word.load(std::memory_order_relaxed);
      if (last == kStop) return;
      send(&pong.word, last);
    }
  });
  uint32_t round = 0;
  for (auto _ : state) {
    ++round;
    send(&ping.word, round);
    wait(&pong.word, round - 1);
  }
  send(&ping.word, kStop);
  worker.join();
}
BENCHMARK_CAPTURE(BM_RawPingPong, spinning, false)->UseRealTime();
BENCHMARK_CAPTURE(BM_RawPingPong, futex, true)->UseRealTime();

}  // namespace
}  // namespace vgpu::protocol

BENCHMARK_MAIN();
