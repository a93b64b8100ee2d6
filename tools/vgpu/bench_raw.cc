// Raw costs of this machine: two threads, and nothing of vGPU but the ring.
// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/clock.h"
#include "base/futex.h"
#include "protocol/session/channel.h"
#include "tools/vgpu/bench.h"
#include "tools/vgpu/demo.h"

namespace vgpu::tools {
namespace {

constexpr uint32_t kRecordBytes = 96;  // about a launch without parameters
constexpr uint16_t kAnyOp = 1;
constexpr int kBatch = 256;

void consume(protocol::WorkerChannel* worker, uint64_t records) {
  protocol::Consumer& consumer = worker->consumer();
  protocol::Record record;
  while (consumer.sequence() < records) {
    switch (consumer.peek(&record)) {
      case protocol::PeekResult::kRecord:
        consumer.release();
        break;
      case protocol::PeekResult::kEmpty:
        consumer.wait();
        break;
      case protocol::PeekResult::kMalformed:
        return;
    }
  }
}

void write_record(protocol::Producer* producer) {
  std::byte* place = producer->reserve(kRecordBytes);
  if (place == nullptr) throw std::runtime_error("the raw ring is dead");
  const protocol::RecordHeader header{kRecordBytes, kAnyOp, 0, 0, protocol::kNoReply};
  std::memset(place + sizeof(header), 0, kRecordBytes - sizeof(header));
  std::memcpy(place, &header, sizeof(header));
  producer->commit();
}

void measure_ring(uint64_t records, Figures* figures) {
  auto pair = protocol::make_loop(protocol::ChannelSizes{});
  if (!pair.ok()) throw std::runtime_error(pair.status().to_string());
  auto worker = protocol::WorkerChannel::create(std::move(pair->worker));
  auto guest = protocol::GuestChannel::open(std::move(pair->guest));
  if (!worker.ok() || !guest.ok()) throw std::runtime_error("cannot open a channel in memory");
  const uint64_t batches = records / kBatch;
  std::vector<double> cpu_ns;
  const uint64_t began = monotonic_ns();
  std::thread consumer(consume, worker->get(), batches * kBatch);
  for (uint64_t batch = 0; batch < batches; ++batch) {
    const uint64_t cpu = thread_cpu_ns();
    for (int i = 0; i < kBatch; ++i) write_record(&(*guest)->producer());
    cpu_ns.push_back(static_cast<double>(thread_cpu_ns() - cpu) / kBatch);
  }
  consumer.join();
  const double seconds = static_cast<double>(monotonic_ns() - began) / 1e9;
  (*figures)["raw_ring_records_per_s"] = static_cast<double>(batches * kBatch) / seconds;
  (*figures)["raw_ring_cpu_ns"] = median(cpu_ns);
}

// Two words on lines of their own; an exchange sends a number one way and waits for it to return.
struct alignas(64) Line {
  std::atomic<uint32_t> word{0};
};
struct Exchange {
  Line there, back;
};

void echo(Exchange* exchange, uint32_t rounds, bool spin) {
  for (uint32_t i = 1; i <= rounds; ++i) {
    // Acquire and release: partner is the other thread's loop below.
    while (exchange->there.word.load(std::memory_order_acquire) != i) {
      if (spin) {
        cpu_relax();
      } else {
        futex_wait(&exchange->there.word, i - 1, -1);
      }
    }
    exchange->back.word.store(i, std::memory_order_release);
    if (!spin) futex_wake_all(&exchange->back.word);
  }
}

double exchange_ns(uint32_t rounds, bool spin, int idle_ms) {
  Exchange exchange;
  std::thread other(echo, &exchange, rounds, spin);
  std::vector<double> times;
  for (uint32_t i = 1; i <= rounds; ++i) {
    if (idle_ms != 0) ::poll(nullptr, 0, idle_ms);
    const uint64_t began = monotonic_ns();
    exchange.there.word.store(i, std::memory_order_release);
    if (!spin) futex_wake_all(&exchange.there.word);
    while (exchange.back.word.load(std::memory_order_acquire) != i) {
      if (spin) {
        cpu_relax();
      } else {
        futex_wait(&exchange.back.word, i - 1, -1);
      }
    }
    times.push_back(static_cast<double>(monotonic_ns() - began));
  }
  other.join();
  return median(times);
}

}  // namespace

void measure_raw(bool quick, Figures* figures) {
  measure_ring(quick ? 400'000 : 4'000'000, figures);
  (*figures)["raw_spin_ns"] = exchange_ns(quick ? 2'000 : 20'000, true, 0);
  (*figures)["raw_futex_busy_ns"] = exchange_ns(quick ? 2'000 : 20'000, false, 0);
  (*figures)["raw_futex_idle_ns"] = exchange_ns(quick ? 50 : 300, false, kIdleMs);
}

}  // namespace vgpu::tools
