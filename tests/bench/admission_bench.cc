// What admission costs a piece of work when nobody competes: open, with an allowance, and with what
// carrying it out adds. SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "base/mapping.h"
#include "scheduler/turns.h"
#include "server/admission.h"
#include "server/worker_link.h"

namespace vgpu::server {
namespace {

struct Worker {
  Worker() : link(reinterpret_cast<WorkerPage*>(page.data())->turns), admission({}, &link) {}
  Mapping page = std::move(Mapping::map_private(kWorkerPageBytes).value());
  TurnLink link;  // not connected: open
  Admission admission;
};

// The check alone: what the consumer does before each launch.
void BM_Admit(benchmark::State& state) {
  Worker worker;
  for (auto _ : state) {
    Admission::Ticket ticket;
    if (!worker.admission.try_admit(0, {kUnknownCost, 7}, &ticket)) std::abort();
    benchmark::DoNotOptimize(ticket);
  }
}
BENCHMARK(BM_Admit);

// With its end, on the same thread: no meter.
void BM_AdmitAndDone(benchmark::State& state) {
  Worker worker;
  for (auto _ : state) {
    Admission::Ticket ticket;
    if (!worker.admission.try_admit(0, {kUnknownCost, 7}, &ticket)) std::abort();
    benchmark::DoNotOptimize(worker.admission.carry_out(ticket, [] { return CUDA_SUCCESS; }));
  }
}
BENCHMARK(BM_AdmitAndDone);

// A session that shares with nobody.
void BM_Alone(benchmark::State& state) {
  Admission admission({}, nullptr);
  for (auto _ : state) {
    Admission::Ticket ticket;
    benchmark::DoNotOptimize(admission.try_admit(0, {kUnknownCost, 7}, &ticket));
    benchmark::DoNotOptimize(ticket);
  }
}
BENCHMARK(BM_Alone);

}  // namespace
}  // namespace vgpu::server

BENCHMARK_MAIN();
